// binaryduo.training.fast._winograd: the kernels on raw addresses, which the caller has checked. No torch
// headers.
#include <nanobind/nanobind.h>

#include <cstdint>

#include "../../common/instruction_sets.h"
#include "winograd.h"

namespace nb = nanobind;
using namespace binaryduo;

namespace {

const winograd::Kernels* built(InstructionSet set) {
    switch (set) {
        case InstructionSet::kAvx2:
            return winograd::kernels_avx2();
        case InstructionSet::kScalar:
            return winograd::kernels_scalar();
        default:
            return nullptr;
    }
}

// BINARYDUO_ISA is read at every call, so that a test can change it; a call takes far longer.
const winograd::Kernels& chosen() { return choose(built); }

const float* in(std::uintptr_t address) { return reinterpret_cast<const float*>(address); }
float* out(std::uintptr_t address) { return reinterpret_cast<float*>(address); }

}  // namespace

NB_MODULE(_winograd, m) {
    m.def("kernels", [] { return chosen().name; });
    m.def(
        "forward",
        [](std::uintptr_t x, std::uintptr_t w, std::uintptr_t y, long n, long h, long wd, long ci, long co,
           bool turned,
           int threads) { chosen().forward(in(x), in(w), out(y), {n, h, wd, ci, co}, turned, threads); },
        nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "weight_gradient",
        [](std::uintptr_t x, std::uintptr_t dy, std::uintptr_t dw, long n, long h, long wd, long ci, long co,
           int threads) { chosen().weight_gradient(in(x), in(dy), out(dw), {n, h, wd, ci, co}, threads); },
        nb::call_guard<nb::gil_scoped_release>());
}
