// binaryduo.training.fast._convolution: the kernels on raw addresses, which the caller has checked. No torch
// headers.
#include "../bindings.h"

#include "convolution.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace nb = nanobind;
using namespace binaryduo;

namespace {

const convolution::Kernels* built(InstructionSet set) {
    switch (set) {
        case InstructionSet::kAmx:
            return convolution::kernels_amx();
        case InstructionSet::kAvx512:
            return convolution::kernels_avx512();
        case InstructionSet::kAvx2:
            return convolution::kernels_avx2();
        case InstructionSet::kScalar:
            return convolution::kernels_scalar();
        default:
            return nullptr;
    }
}

// The CPU says that it has AMX and says nothing about the size of its tiles (leaf 1Dh), as under some
// hypervisors. Ours have the one size that there is; oneDNN, which asks, ends the process by an illegal
// instruction.
bool tiles_are_undescribed() {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0, palettes = 0;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    const bool tiles = (d >> 24 & 1) != 0;
    __get_cpuid_count(0x1d, 0, &palettes, &b, &c, &d);
    return tiles && palettes == 0;
#else
    return false;
#endif
}

// BINARYDUO_ISA is read at every call, so that a test can change it; a call takes far longer.
const convolution::Kernels& chosen() { return choose(built); }

}  // namespace

NB_MODULE(_convolution, m) {
    use_the_pool_of_the_engine();
    m.def("kernels", [] { return chosen().name; });
    m.def("tiles_are_undescribed", tiles_are_undescribed);
    m.def(
        "forward",
        [](bool bf16, Address x, Address w, Address y, long n, long h, long wd, long ci, long co, bool turned,
           int threads) {
            with_type(bf16, [&](auto type) {
                using T = decltype(type);
                passes<T>(chosen()).forward(in<T>(x), in(w), out<T>(y), {n, h, wd, ci, co}, turned, threads);
            });
        },
        nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "weight_gradient",
        [](bool bf16, Address x, Address dy, Address dw, long n, long h, long wd, long ci, long co,
           int threads) {
            with_type(bf16, [&](auto type) {
                using T = decltype(type);
                passes<T>(chosen()).weight_gradient(in<T>(x), in<T>(dy), out(dw), {n, h, wd, ci, co},
                                                    threads);
            });
        },
        nb::call_guard<nb::gil_scoped_release>());
}
