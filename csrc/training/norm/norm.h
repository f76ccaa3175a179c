// Batch normalisation and the quantized activation after it, in training, as one operation.
//
// x is channels-last: `rows` pixels of C channels. Out come r·C channels (the copies of a decoupled network,
// r = 1 elsewhere), blocked: channel i·C + c is made of input channel c,
//
//   y = weight·(x - mean)/sqrt(var + eps) + bias,   q = floor(min(max(y, 0), 1)·(levels - 1) + 1/2)/(levels -
//   1)
//
// with mean and var over the rows, computed once for all copies. Back comes the straight-through gradient of
// clip(y, 0, 1): that of y is that of q where 0 <= y <= 1 and zero elsewhere. y is not kept but computed
// again. With levels = 0 no activation follows: y itself comes out, and its gradient is the one that comes
// in.
#pragma once
#include <cstdint>

#include "../../common/bf16.h"

namespace binaryduo::norm {

struct Shape {
    long rows, channels, copies;
};

// The two passes, with x, its levels and their gradients of type T.
template <typename T>
struct Passes {
    // mean and var (without Bessel's correction): C; out: rows × r·C
    void (*forward)(const T* x, const float* weight, const float* bias, float eps, int levels, Shape shape,
                    float* mean, float* var, T* out, int threads);
    // dx: rows × C; dweight and dbias: r·C
    void (*backward)(const T* x, const T* grad, const float* weight, const float* bias, const float* mean,
                     const float* var, float eps, int levels, Shape shape, T* dx, float* dweight,
                     float* dbias, int threads);
};

struct Kernels {
    const char* name;
    Passes<float> float32;
    Passes<Bf16> bfloat16;
};

// One for each instruction set; null where it was not compiled.
const Kernels* kernels_scalar();
const Kernels* kernels_avx2();
const Kernels* kernels_avx512();

}  // namespace binaryduo::norm
