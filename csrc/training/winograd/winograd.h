// 3×3 convolutions for training, by Winograd's F(4×4, 3×3): a quarter of the multiplications.
//
// All images are channels-last: x (N, H, W, Ci), y (N, H, W, Co); stride 1, padding 1. Weights are (Co, 3, 3,
// Ci), PyTorch's channels_last order. An output tile of 4×4 pixels needs an input tile of 6×6. With the
// matrices of Lavin & Gray (2016),
//
//   U = Bᵀ d B   (6×6 of each input tile and channel)
//   V = G g Gᵀ   (6×6 of each filter)
//   M = Σ_ci U V (36 independent matrix products, tiles × Ci by Ci × Co)
//   Y = Aᵀ M A   (4×4 of each output tile)
//
// The gradients are the transposed steps: that of x is the same convolution with turned filters; that of the
// weights is dV = Σ_tiles U (A dY Aᵀ), dg = Gᵀ dV G.
#pragma once

namespace binaryduo::winograd {

struct Shape {
    long images, height, width, in, out;
};

// One table of entry points for each instruction set.
struct Kernels {
    const char* name;
    // y = x * w; with `turned`, w is (Ci, 3, 3, Co) and its filters are turned by 180°: the gradient of the
    // input.
    void (*forward)(const float* x, const float* w, float* y, Shape shape, bool turned, int threads);
    // dw (Co, 3, 3, Ci) from x and dy.
    void (*weight_gradient)(const float* x, const float* dy, float* dw, Shape shape, int threads);
};

// One for each instruction set; null where it was not compiled.
const Kernels* kernels_scalar();
const Kernels* kernels_avx2();

}  // namespace binaryduo::winograd
