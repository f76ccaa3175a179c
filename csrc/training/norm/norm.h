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
// again.
#pragma once

namespace binaryduo::norm {

struct Shape {
    long rows, channels, copies;
};

struct Kernels {
    const char* name;
    // mean and var (without Bessel's correction): C; out: rows × r·C
    void (*forward)(const float* x, const float* weight, const float* bias, float eps, int levels,
                    Shape shape, float* mean, float* var, float* out, int threads);
    // dx: rows × C; dweight and dbias: r·C
    void (*backward)(const float* x, const float* grad, const float* weight, const float* bias,
                     const float* mean, const float* var, float eps, Shape shape, float* dx, float* dweight,
                     float* dbias, int threads);
};

// One for each instruction set; null where it was not compiled.
const Kernels* kernels_scalar();
const Kernels* kernels_avx2();

}  // namespace binaryduo::norm
