// A loaded model: its program, its kernels, its threads, and the memory that runs reuse.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "../common/buffer.h"
#include "../common/threads.h"
#include "kernels.h"
#include "program.h"

namespace binaryduo {

class Model {
  public:
    // `data` must outlive the model. threads: at least 1.
    Model(Program program, size_t threads);
    ~Model();

    const Program& program() const { return program_; }
    const Kernels& kernels() const { return kernels_; }
    size_t threads() const { return threads_; }
    size_t workspace_bytes() const;
    // How operation `number` counts bits, in a word; empty where it is no binary convolution.
    const char* binary_kernel(size_t number) const;

    // Floats of all outputs for one image.
    size_t output_size() const;

    // images: N × C × H × W floats; out: the outputs, one after the other, N × C × H × W each. Safe from
    // several threads at once: a step of one of them uses all threads of the model, those of the others
    // meanwhile their own.
    void run(const float* images, size_t count, float* out);

    // One image; every tensor of the program is kept: `out[i]` receives tensor i, as it lies in memory.
    void trace(const float* image, uint8_t* const* out);

    // Runs the images once and adds each operation's seconds to `seconds`.
    void profile(const float* images, size_t count, double* seconds);

  private:
    struct Workspace;
    struct Runner;
    void run(const float* images, size_t count, float* out, double* seconds);
    void prepare_weights(const Op& op, const ConvShape& s);
    std::unique_ptr<Workspace> borrow(bool all);
    void give_back(std::unique_ptr<Workspace> workspace);

    Program program_;
    const Kernels& kernels_;
    size_t threads_;
    std::mutex free_mutex_;
    std::vector<std::unique_ptr<Workspace>> free_;
    std::vector<Buffer<uint8_t>>
        weights_;   // of each operation, as the kernels want them; null: as in the file
    size_t chunk_;  // images that go through the program together
    size_t stream_bytes_, counts_bytes_, scratch_bytes_;
};

}  // namespace binaryduo
