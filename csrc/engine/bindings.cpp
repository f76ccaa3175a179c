// The Python face of the engine: one class, `Model`, on the C API (duo.h).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <system_error>
#include <vector>

#include "../common/buffer.h"
#include "../common/threads.h"
#include "../include/duo.h"

namespace nb = nanobind;
using namespace nb::literals;
using binaryduo::Buffer;

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Images = nb::ndarray<nb::ro, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Clock = std::chrono::steady_clock;

void check(duo_status status, const duo_error& error) {
    if (status == DUO_NO_MEMORY) throw std::bad_alloc();
    if (status != DUO_OK) throw nb::value_error(error.sentence);
}

void share_in_process(void*, size_t threads, size_t items, duo_task task, void* work) {
    binaryduo::run_on_threads(threads, items, {task, work});
}

template <typename T>
nb::capsule owner_of(T* values) {
    return nb::capsule(values, [](void* p) noexcept { delete[] static_cast<T*>(p); });
}

size_t values_of(const duo_tensor& t) { return size_t(t.channels) * t.height * t.width; }

// An open model, the file's memory that it points into, and arenas for the calls that run at the same time.
class PyModel {
  public:
    PyModel(Bytes content, size_t threads) : content_(content), threads_(threads) {
        if (binaryduo::start_threads(threads) < threads)
            throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        duo_options options{};
        options.threads = threads;
        options.share = share_in_process;
        options.name = "";
        duo_error error;
        check(duo_open_memory(content.data(), content.size(), &options, &model_, &error), error);
    }
    PyModel(const PyModel&) = delete;
    ~PyModel() { duo_close(model_); }

    duo_model* get() const { return model_; }
    size_t threads() const { return threads_; }

    duo_tensor input() const { return tensor(duo_input, 0); }
    duo_tensor output(size_t index) const { return tensor(duo_output, index); }
    duo_tensor tensor(size_t number) const { return tensor(duo_tensor_of, number); }

    // Floats of all outputs for one image.
    size_t output_values() const {
        size_t values = 0;
        for (size_t i = 0; i < duo_outputs(model_); ++i) values += values_of(output(i));
        return values;
    }

    void check_images(const Images& images) const {
        const duo_tensor in = input();
        if (images.shape(1) != in.channels || images.shape(2) != in.height || images.shape(3) != in.width)
            throw nb::value_error("the images have another shape than the model's input");
        if (images.dtype() != (in.kind == DUO_UINT8 ? nb::dtype<uint8_t>() : nb::dtype<float>()))
            throw nb::value_error("the images have another type than the model's input");
    }

    // All outputs go into one block of memory, one after the other.
    void run(const Images& images, float* out, duo_watch watch = nullptr, void* watcher = nullptr) {
        std::vector<void*> outputs;
        for (size_t i = 0; i < duo_outputs(model_); ++i) {
            outputs.push_back(out);
            out += images.shape(0) * values_of(output(i));
        }
        nb::gil_scoped_release release;
        Buffer<uint8_t> arena = borrow();
        const void* inputs[] = {images.data()};
        duo_error error;
        const duo_status status =
            duo_run_watched(model_, images.shape(0), inputs, outputs.data(), arena.get(),
                            duo_arena_bytes(model_), watch, watcher, &error);
        give_back(std::move(arena));
        check(status, error);
    }

  private:
    template <typename Describe>
    duo_tensor tensor(Describe describe, size_t index) const {
        duo_tensor found;
        duo_error error;
        check(describe(model_, index, &found, &error), error);
        return found;
    }

    Buffer<uint8_t> borrow() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!free_.empty()) {
                Buffer<uint8_t> arena = std::move(free_.back());
                free_.pop_back();
                return arena;
            }
        }
        return binaryduo::zeros<uint8_t>(duo_arena_bytes(model_));
    }
    void give_back(Buffer<uint8_t> arena) {
        std::lock_guard<std::mutex> lock(mutex_);
        free_.push_back(std::move(arena));
    }

    Bytes content_;
    size_t threads_;
    duo_model* model_ = nullptr;
    std::mutex mutex_;
    std::vector<Buffer<uint8_t>> free_;
};

// A list of arrays (N, C, H, W), one for each output, that share their memory.
nb::list run(PyModel& self, Images images) {
    self.check_images(images);
    const size_t count = images.shape(0);
    float* result = new float[std::max<size_t>(1, count * self.output_values())];
    const nb::capsule owner = owner_of(result);
    self.run(images, result);
    nb::list arrays;
    for (size_t i = 0; i < duo_outputs(self.get()); ++i) {
        const duo_tensor out = self.output(i);
        arrays.append(
            nb::ndarray<nb::numpy, float>(result, {count, out.channels, out.height, out.width}, owner));
        result += count * values_of(out);
    }
    return arrays;
}

nb::list trace(PyModel& self, Images images) {
    self.check_images(images);
    if (images.shape(0) != 1) throw nb::value_error("trace takes one image");
    struct Copies {
        std::vector<uint8_t*> targets;
        std::vector<size_t> bytes;
    } copies;
    nb::list result;
    for (size_t i = 0; i < duo_tensors(self.get()); ++i) {
        const duo_tensor t = self.tensor(i);
        uint8_t* memory = new uint8_t[t.bytes];
        const nb::capsule owner = owner_of(memory);
        copies.targets.push_back(memory);
        copies.bytes.push_back(t.bytes);
        if (t.kind == DUO_FLOAT32)
            result.append(nb::ndarray<nb::numpy, float>(memory, {t.height, t.width, t.channels}, owner));
        else
            result.append(nb::ndarray<nb::numpy, uint8_t>(
                memory, {t.height, t.width, t.bytes / t.height / t.width}, owner));
    }
    std::vector<float> out(self.output_values());
    self.run(
        images, out.data(),
        [](void* watcher, const duo_written* written) {
            const Copies& to = *static_cast<Copies*>(watcher);
            std::copy_n(static_cast<const uint8_t*>(written->values), to.bytes[written->tensor],
                        to.targets[written->tensor]);
        },
        &copies);
    return result;
}

nb::list profile(PyModel& self, Images images) {
    self.check_images(images);
    struct Times {
        std::vector<double> seconds;
        Clock::time_point last;
    } times{std::vector<double>(duo_operations(self.get())), {}};
    std::vector<float> out(images.shape(0) * self.output_values());
    self.run(
        images, out.data(),
        [](void* watcher, const duo_written* written) {
            Times& to = *static_cast<Times*>(watcher);
            const Clock::time_point now = Clock::now();
            if (written->operation != DUO_INPUTS)
                to.seconds[written->operation] += std::chrono::duration<double>(now - to.last).count();
            to.last = now;
        },
        &times);
    nb::list result;
    for (double s : times.seconds) result.append(s);
    return result;
}

// Cycles a second of the core at work: additions that wait for each other take one cycle each.
double cycles_per_second() {
    nb::gil_scoped_release release;
    double best = 0;
    for (int round = 0; round < 5; ++round) {
        const auto start = Clock::now();
        uint64_t sum = 0;
        for (int i = 0; i < 2'000'000; ++i) {
            sum += 1;
            asm volatile("" : "+r"(sum));  // so that the compiler adds every one
        }
        const std::chrono::duration<double> taken = Clock::now() - start;
        best = std::max(best, double(sum) / taken.count());
    }
    return best;
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "The native engine: see binaryduo.engine.runtime, which is its only caller.";
    m.attr("_thread_pool") =
        nb::capsule(reinterpret_cast<void*>(&binaryduo::run_on_threads), "binaryduo threads");
    m.def("available", &duo_instruction_sets, "Instruction sets this CPU can run, best first.");
    m.def("cycles_per_second", &cycles_per_second, "The clock of the core at work, measured.");
    nb::class_<PyModel>(m, "Model")
        .def(nb::init<Bytes, size_t>(), "content"_a, "threads"_a)
        .def("run", &run, "images"_a)
        .def("trace", &trace, "images"_a)
        .def("profile", &profile, "images"_a)
        .def_prop_ro("isa", [](const PyModel& self) { return std::string(duo_instruction_set(self.get())); })
        .def(
            "bit_kernel",
            [](const PyModel& self, size_t op) { return std::string(duo_kernel(self.get(), op)); }, "op"_a)
        .def_prop_ro("threads", &PyModel::threads)
        .def_prop_ro("workspace_bytes", [](const PyModel& self) { return duo_arena_bytes(self.get()); });
}
