// binaryduo.training.fast._norm: the kernels on raw addresses, which the caller has checked. No torch
// headers.
#include "../bindings.h"

#include "norm.h"

namespace nb = nanobind;
using namespace binaryduo;

namespace {

const norm::Kernels* built(InstructionSet set) {
    switch (set) {
        case InstructionSet::kAvx512:
            return norm::kernels_avx512();
        case InstructionSet::kAvx2:
            return norm::kernels_avx2();
        case InstructionSet::kScalar:
            return norm::kernels_scalar();
        default:
            return nullptr;
    }
}

// BINARYDUO_ISA is read at every call, so that a test can change it; a call takes far longer.
const norm::Kernels& chosen() { return choose(built); }

}  // namespace

NB_MODULE(_norm, m) {
    use_the_pool_of_the_engine();
    m.def("kernels", [] { return chosen().name; });
    m.def(
        "forward",
        [](bool bf16, Address x, Address weight, Address bias, float eps, int levels, long rows,
           long channels, long copies, Address mean, Address var, Address y, int threads) {
            with_type(bf16, [&](auto type) {
                using T = decltype(type);
                passes<T>(chosen()).forward(in<T>(x), in(weight), in(bias), eps, levels,
                                            {rows, channels, copies}, out(mean), out(var), out<T>(y),
                                            threads);
            });
        },
        nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "backward",
        [](bool bf16, Address x, Address grad, Address weight, Address bias, Address mean, Address var,
           float eps, int levels, long rows, long channels, long copies, Address dx, Address dweight,
           Address dbias, int threads) {
            with_type(bf16, [&](auto type) {
                using T = decltype(type);
                passes<T>(chosen()).backward(in<T>(x), in<T>(grad), in(weight), in(bias), in(mean), in(var),
                                             eps, levels, {rows, channels, copies}, out<T>(dx), out(dweight),
                                             out(dbias), threads);
            });
        },
        nb::call_guard<nb::gil_scoped_release>());
}
