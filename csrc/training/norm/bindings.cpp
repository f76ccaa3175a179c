// binaryduo.training.fast._norm: the kernels on raw addresses, which the caller has checked. No torch
// headers.
#include "../bindings.h"

#include "norm.h"

namespace nb = nanobind;
using namespace binaryduo;

namespace {

const norm::Kernels* built(InstructionSet set) {
    switch (set) {
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

// The passes for numbers of type T, under names that say so.
template <typename T>
void define(nb::module_& m, const char* forward, const char* backward,
            norm::Passes<T> norm::Kernels::* passes) {
    m.def(
        forward,
        [=](Address x, Address weight, Address bias, float eps, int levels, long rows, long channels,
            long copies, Address mean, Address var, Address y, int threads) {
            (chosen().*passes)
                .forward(in<T>(x), in(weight), in(bias), eps, levels, {rows, channels, copies}, out(mean),
                         out(var), out<T>(y), threads);
        },
        nb::call_guard<nb::gil_scoped_release>());
    m.def(
        backward,
        [=](Address x, Address grad, Address weight, Address bias, Address mean, Address var, float eps,
            long rows, long channels, long copies, Address dx, Address dweight, Address dbias, int threads) {
            (chosen().*passes)
                .backward(in<T>(x), in<T>(grad), in(weight), in(bias), in(mean), in(var), eps,
                          {rows, channels, copies}, out<T>(dx), out(dweight), out(dbias), threads);
        },
        nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

NB_MODULE(_norm, m) {
    use_the_pool_of_the_engine();
    m.def("kernels", [] { return chosen().name; });
    define(m, "forward", "backward", &norm::Kernels::float32);
    define(m, "forward_bf16", "backward_bf16", &norm::Kernels::bfloat16);
}
