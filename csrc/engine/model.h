// A loaded model: its program, its kernels, its threads. Constant once it is made; a run works in its
// caller's memory.
#pragma once
#include <vector>

#include "../common/buffer.h"
#include "../include/duo.h"
#include "kernels.h"
#include "program.h"

namespace binaryduo {

class Model {
  public:
    // The program's data must outlive the model. options: see duo.h.
    Model(Program program, const duo_options& options);

    const Program& program() const { return program_; }
    const Kernels& kernels() const { return kernels_; }
    size_t arena_bytes() const;
    // How operation `number` adds up what its input's bits select, in a word; empty where it unpacks them or
    // reads none.
    const char* bit_kernel(size_t number) const;

    // images: N × C × H × W floats, or bytes where the input is bytes; outputs: N × C × H × W floats for
    // each; arena: arena_bytes() of memory. watch may be null. Allocates nothing.
    void run(const void* images, size_t count, void* const* outputs, void* arena, duo_watch watch,
             void* watcher) const;

  private:
    struct Workspace;
    struct Pass;
    struct Convolutions;
    struct Runner;
    Workspace lay_out(void* arena) const;
    // These run once, when a model is opened.
    __attribute__((cold)) void reserve_shape(const ConvShape& s);
    __attribute__((cold)) void reserve(const Op& op);
    __attribute__((cold)) void reserve_groups(const Op& op);

    Program program_;
    const Kernels& kernels_;
    duo_options options_;
    std::vector<Buffer<uint8_t>>
        weights_;   // of each operation, as the kernels want them; null: as in the file
    size_t chunk_;  // images that go through the program together
    size_t stream_bytes_, counts_bytes_, scratch_bytes_;
};

}  // namespace binaryduo
