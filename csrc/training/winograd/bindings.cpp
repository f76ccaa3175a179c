// binaryduo.training.fast._winograd: the kernels on raw addresses, which the caller has checked. No torch
// headers.
#include "../bindings.h"

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

}  // namespace

NB_MODULE(_winograd, m) {
    use_the_pool_of_the_engine();
    m.def("kernels", [] { return chosen().name; });
    m.def(
        "forward",
        [](Address x, Address w, Address y, long n, long h, long wd, long ci, long co, bool turned,
           int threads) { chosen().forward(in(x), in(w), out(y), {n, h, wd, ci, co}, turned, threads); },
        nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "weight_gradient",
        [](Address x, Address dy, Address dw, long n, long h, long wd, long ci, long co, int threads) {
            chosen().weight_gradient(in(x), in(dy), out(dw), {n, h, wd, ci, co}, threads);
        },
        nb::call_guard<nb::gil_scoped_release>());
}
