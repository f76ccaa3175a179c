// 3×3 convolutions for training: stride 1, padding 1.
//
// All images are channels-last: x (N, H, W, Ci), y (N, H, W, Co), float32 or bfloat16. Weights are float32,
// (Co, 3, 3, Ci), PyTorch's channels_last order; beside bfloat16 images they are rounded to it first. Sums
// are float32.
#pragma once
#include "../../common/bf16.h"

namespace binaryduo::convolution {

struct Shape {
    long images, height, width, in, out;
};

// The two passes, with images of type T.
template <typename T>
struct Passes {
    // y = x * w; with `turned`, w is (Ci, 3, 3, Co) and its filters are turned by 180°: the gradient of the
    // input.
    void (*forward)(const T* x, const float* w, T* y, Shape shape, bool turned, int threads);
    // dw (Co, 3, 3, Ci) from x and dy.
    void (*weight_gradient)(const T* x, const T* dy, float* dw, Shape shape, int threads);
};

// One table of entry points for each instruction set.
struct Kernels {
    const char* name;
    Passes<float> float32;
    Passes<Bf16> bfloat16;
};

// One for each instruction set; null where it was not compiled, or where the CPU lacks what it needs.
const Kernels* kernels_scalar();
const Kernels* kernels_avx2();
const Kernels* kernels_avx512();
const Kernels* kernels_amx();  // bfloat16 by matrix tiles

}  // namespace binaryduo::convolution
