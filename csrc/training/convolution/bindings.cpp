// binaryduo.training.fast._convolution: the kernels on raw addresses, which the caller has checked. No torch
// headers.
#include "../bindings.h"

#include "convolution.h"

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

// BINARYDUO_ISA is read at every call, so that a test can change it; a call takes far longer.
const convolution::Kernels& chosen() { return choose(built); }

}  // namespace

NB_MODULE(_convolution, m) {
    use_the_pool_of_the_engine();
    m.def("kernels", [] { return chosen().name; });
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
