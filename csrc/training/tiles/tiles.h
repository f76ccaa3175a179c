// 3×3 convolutions for training in bfloat16, by the matrix tiles of AMX (Sapphire Rapids and later).
//
// All images are channels-last bfloat16: x (N, H, W, Ci), y (N, H, W, Co); stride 1, padding 1. Weights are
// float32, (Co, 3, 3, Ci), and are rounded to bfloat16 here; sums are float32. The README beside this file
// says how tiles are laid over an image.
#pragma once
#include <cstdint>

namespace binaryduo::tiles {

struct Shape {
    long images, height, width, in, out;
};

// Whether this CPU has such tiles, the system lets this process use them, and BINARYDUO_ISA asks for no other
// instruction set.
bool available();

// y = x * w; with `turned`, w is (Ci, 3, 3, Co) and its filters are turned by 180°: the gradient of the
// input.
void forward(const uint16_t* x, const float* w, uint16_t* y, Shape shape, bool turned, int threads);

// dw (Co, 3, 3, Ci) from x and dy; the same bits for any number of threads.
void weight_gradient(const uint16_t* x, const uint16_t* dy, float* dw, Shape shape, int threads);

}  // namespace binaryduo::tiles
