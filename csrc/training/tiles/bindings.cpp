// binaryduo.training.fast._tiles: the kernels on raw addresses, which the caller has checked. No torch
// headers.
#include "../bindings.h"

#include "tiles.h"

namespace nb = nanobind;
using namespace binaryduo;

NB_MODULE(_tiles, m) {
    use_the_pool_of_the_engine();
    m.def("available", &tiles::available);
    m.def(
        "forward",
        [](Address x, Address w, Address y, long n, long h, long wd, long ci, long co, bool turned,
           int threads) {
            tiles::forward(in<uint16_t>(x), in(w), out<uint16_t>(y), {n, h, wd, ci, co}, turned, threads);
        },
        nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "weight_gradient",
        [](Address x, Address dy, Address dw, long n, long h, long wd, long ci, long co, int threads) {
            tiles::weight_gradient(in<uint16_t>(x), in<uint16_t>(dy), out(dw), {n, h, wd, ci, co}, threads);
        },
        nb::call_guard<nb::gil_scoped_release>());
}
