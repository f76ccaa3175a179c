// binaryduo.training.fast._winograd: the kernels on raw addresses, which the caller has checked. No torch headers.
#include <nanobind/nanobind.h>

#include <cstdint>

#include "winograd.h"

namespace nb = nanobind;

namespace {

const winograd::Kernels* best() {
#if defined(__x86_64__)
    if (winograd::avx2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return winograd::avx2();
#endif
    return winograd::portable();
}

const winograd::Kernels* chosen = best();

const float* in(std::uintptr_t address) { return reinterpret_cast<const float*>(address); }
float* out(std::uintptr_t address) { return reinterpret_cast<float*>(address); }

}  // namespace

NB_MODULE(_winograd, m) {
    m.def("kernels", [] { return chosen->name; });
    m.def("use", [](bool fastest) { chosen = fastest ? best() : winograd::portable(); });
    m.def(
        "forward",
        [](std::uintptr_t x, std::uintptr_t w, std::uintptr_t y, long n, long h, long wd, long ci, long co,
           bool turned,
           int threads) { chosen->forward(in(x), in(w), out(y), {n, h, wd, ci, co}, turned, threads); },
        nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "weight_gradient",
        [](std::uintptr_t x, std::uintptr_t dy, std::uintptr_t dw, long n, long h, long wd, long ci, long co,
           int threads) { chosen->weight_gradient(in(x), in(dy), out(dw), {n, h, wd, ci, co}, threads); },
        nb::call_guard<nb::gil_scoped_release>());
}
