// The Python face of the engine: one class, `Model`. Everything it is given is checked by read_program.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "model.h"

namespace nb = nanobind;
using namespace nb::literals;
using binaryduo::Kind;
using binaryduo::Model;
using binaryduo::Tensor;

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Images = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

// Keeps the file's memory alive as long as the model points into it.
struct PyModel {
    Bytes data;
    Model model;

    PyModel(Bytes tensors, Bytes ops, Bytes data_, size_t threads)
        : data(data_),
          model(binaryduo::read_program(tensors.data(), tensors.size(), ops.data(), ops.size(), data.data(),
                                        data.size()),
                threads) {}
};

void check_images(const Model& model, const Images& images) {
    const Tensor& in = model.program().tensors[model.program().input];
    if (images.shape(1) != in.channels || images.shape(2) != in.height || images.shape(3) != in.width)
        throw nb::value_error("the images have another shape than the model's input");
}

// All outputs, in a list of arrays that share one block of memory.
nb::list run(PyModel& self, Images images) {
    check_images(self.model, images);
    const size_t count = images.shape(0), size = count * self.model.output_size();
    float* result = new float[size ? size : 1];
    nb::capsule owner(result, [](void* p) noexcept { delete[] static_cast<float*>(p); });
    {
        nb::gil_scoped_release release;
        self.model.run(images.data(), count, result);
    }
    nb::list arrays;
    for (int32_t output : self.model.program().outputs) {
        const Tensor& out = self.model.program().tensors[output];
        arrays.append(
            nb::ndarray<nb::numpy, float>(result, {count, out.channels, out.height, out.width}, owner));
        result += count * out.channels * out.pixels();
    }
    return arrays;
}

nb::list trace(PyModel& self, Images images) {
    check_images(self.model, images);
    if (images.shape(0) != 1) throw nb::value_error("trace takes one image");
    nb::list result;
    std::vector<uint8_t*> targets;
    for (const Tensor& t : self.model.program().tensors) {
        uint8_t* memory = new uint8_t[t.image_bytes()];
        nb::capsule owner(memory, [](void* p) noexcept { delete[] static_cast<uint8_t*>(p); });
        targets.push_back(memory);
        if (t.kind == Kind::kFloat)
            result.append(nb::ndarray<nb::numpy, float>(memory, {t.height, t.width, t.channels}, owner));
        else
            result.append(
                nb::ndarray<nb::numpy, uint8_t>(memory, {t.height, t.width, t.pixel_bytes()}, owner));
    }
    nb::gil_scoped_release release;
    self.model.trace(images.data(), targets.data());
    return result;
}

nb::list profile(PyModel& self, Images images) {
    check_images(self.model, images);
    std::vector<double> seconds(self.model.program().ops.size());
    {
        nb::gil_scoped_release release;
        self.model.profile(images.data(), images.shape(0), seconds.data());
    }
    nb::list result;
    for (double s : seconds) result.append(s);
    return result;
}

// Cycles a second of the core at work: additions that wait for each other take one cycle each.
double cycles_per_second() {
    nb::gil_scoped_release release;
    double best = 0;
    for (int round = 0; round < 5; ++round) {
        const auto start = std::chrono::steady_clock::now();
        uint64_t sum = 0;
        for (int i = 0; i < 2'000'000; ++i) {
            sum += 1;
            asm volatile("" : "+r"(sum));  // so that the compiler adds every one
        }
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        best = std::max(best, double(sum) / taken.count());
    }
    return best;
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "The native engine: see binaryduo.engine.runtime, which is its only caller.";
    m.attr("_thread_pool") =
        nb::capsule(reinterpret_cast<void*>(&binaryduo::run_on_threads), "binaryduo threads");
    m.def("available", &binaryduo::available_kernels, "Instruction sets this CPU can run, best first.");
    m.def("cycles_per_second", &cycles_per_second, "The clock of the core at work, measured.");
    nb::class_<PyModel>(m, "Model")
        .def(nb::init<Bytes, Bytes, Bytes, size_t>(), "tensors"_a, "ops"_a, "data"_a, "threads"_a)
        .def("run", &run, "images"_a)
        .def("trace", &trace, "images"_a)
        .def("profile", &profile, "images"_a)
        .def_prop_ro("isa", [](const PyModel& self) { return std::string(self.model.kernels().name); })
        .def(
            "binary_kernel",
            [](const PyModel& self, size_t op) { return std::string(self.model.binary_kernel(op)); }, "op"_a)
        .def_prop_ro("threads", [](const PyModel& self) { return self.model.threads(); })
        .def_prop_ro("workspace_bytes", [](const PyModel& self) { return self.model.workspace_bytes(); });
}
