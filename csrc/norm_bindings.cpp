// binaryduo.training.fast._norm: the kernels on raw addresses, which the caller has checked. No torch headers.
#include <nanobind/nanobind.h>

#include <cstdint>

#include "norm.h"

namespace nb = nanobind;

namespace {

const norm::Kernels* best() {
#if defined(__x86_64__)
    if (norm::avx2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return norm::avx2();
#endif
    return norm::portable();
}

const norm::Kernels* chosen = best();

using Address = std::uintptr_t;
const float* in(Address address) { return reinterpret_cast<const float*>(address); }
float* out(Address address) { return reinterpret_cast<float*>(address); }

}  // namespace

NB_MODULE(_norm, m) {
    m.def("kernels", [] { return chosen->name; });
    m.def("use", [](bool fastest) { chosen = fastest ? best() : norm::portable(); });
    m.def(
        "forward",
        [](Address x, Address weight, Address bias, float eps, int levels, long rows, long channels,
           long copies, Address mean, Address var, Address y, int threads) {
            chosen->forward(in(x), in(weight), in(bias), eps, levels, {rows, channels, copies}, out(mean),
                            out(var), out(y), threads);
        },
        nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "backward",
        [](Address x, Address grad, Address weight, Address bias, Address mean, Address var, float eps,
           long rows, long channels, long copies, Address dx, Address dweight, Address dbias, int threads) {
            chosen->backward(in(x), in(grad), in(weight), in(bias), in(mean), in(var), eps,
                             {rows, channels, copies}, out(dx), out(dweight), out(dbias), threads);
        },
        nb::call_guard<nb::gil_scoped_release>());
}
