// Float operations that are no convolution, one image or pixel at a time: functions of each value, two
// tensors value by value, other rows and columns, normalisation. Plain loops; docs/format.md says what each
// computes.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "program.h"

namespace binaryduo {

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
inline float softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x))); }
inline float hard_sigmoid(float x) { return std::clamp(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f); }

template <typename F>
void map_values(const float* x, float* y, size_t count, F f) {
    for (size_t i = 0; i < count; ++i) y[i] = f(x[i]);
}

// `pixels` pixels of `channels` values. `p` are the curve's parameters: see Curve.
inline void curve(Curve function, const float* p, const float* x, float* y, size_t pixels, size_t channels) {
    const size_t count = pixels * channels;
    switch (function) {
        case Curve::kPrelu:
            for (size_t i = 0; i < pixels; ++i, x += channels, y += channels)
                for (size_t c = 0; c < channels; ++c) y[c] = x[c] >= 0 ? x[c] : p[c] * x[c];
            break;
        case Curve::kClamp:
            map_values(x, y, count, [&](float v) { return std::min(std::max(v, p[0]), p[1]); });
            break;
        case Curve::kSigmoid:
            map_values(x, y, count, sigmoid);
            break;
        case Curve::kTanh:
            map_values(x, y, count, [](float v) { return std::tanh(v); });
            break;
        case Curve::kHardSigmoid:
            map_values(x, y, count, hard_sigmoid);
            break;
        case Curve::kHardSwish:
            map_values(x, y, count, [](float v) { return v * hard_sigmoid(v); });
            break;
        case Curve::kSilu:
            map_values(x, y, count, [](float v) { return v * sigmoid(v); });
            break;
        case Curve::kGelu:
            map_values(x, y, count, [](float v) { return v * 0.5f * (1.0f + std::erf(v * 0.70710678f)); });
            break;
        case Curve::kElu:
            map_values(x, y, count, [&](float v) { return v >= 0 ? v : p[0] * std::expm1(v); });
            break;
        case Curve::kSoftplus:
            map_values(x, y, count, softplus);
            break;
        case Curve::kMish:
            map_values(x, y, count, [](float v) { return v * std::tanh(softplus(v)); });
            break;
        case Curve::kAbs:
            map_values(x, y, count, [](float v) { return std::fabs(v); });
            break;
        case Curve::kExp:
            map_values(x, y, count, [](float v) { return std::exp(v); });
            break;
        case Curve::kSquare:
            map_values(x, y, count, [](float v) { return v * v; });
            break;
    }
}

// One pixel: `step` is 0 where the second tensor has one channel that serves for all, else 1.
inline void join(Join function, const float* a, const float* b, size_t step, float* y, size_t channels) {
    switch (function) {
        case Join::kProduct:
            for (size_t c = 0; c < channels; ++c) y[c] = a[c] * b[c * step];
            break;
        case Join::kSum:
            for (size_t c = 0; c < channels; ++c) y[c] = a[c] + b[c * step];
            break;
        case Join::kMaximum:
            for (size_t c = 0; c < channels; ++c) y[c] = std::max(a[c], b[c * step]);
            break;
        case Join::kMinimum:
            for (size_t c = 0; c < channels; ++c) y[c] = std::min(a[c], b[c * step]);
            break;
        case Join::kQuotient:
            for (size_t c = 0; c < channels; ++c) y[c] = a[c] / b[c * step];
            break;
    }
}

// One row of an output image. `index` and `shares` have two rows for each output row, then two columns for
// each output column. A share of 0 leaves its pixel out, which is how zeros come between or around the
// pixels.
inline void resample_row(const Tensor& in, const Tensor& out, const uint32_t* index, const float* shares,
                         const float* image, size_t row, float* y) {
    const size_t h = out.height, w = out.width, channels = in.channels;
    for (size_t x = 0; x < w; ++x, y += channels) {
        std::fill(y, y + channels, 0.0f);
        for (size_t i : {size_t(0), size_t(1)})
            for (size_t j : {size_t(0), size_t(1)}) {
                const float share = shares[i * h + row] * shares[2 * h + j * w + x];
                if (share == 0) continue;
                const float* from =
                    image + (size_t(index[i * h + row]) * in.width + index[2 * h + j * w + x]) * channels;
                for (size_t c = 0; c < channels; ++c) y[c] += share * from[c];
            }
    }
}

// One group of channels of one image: mean 0 and variance 1 over all its pixels, then scale and bias.
inline void normalise(const Op& op, const Tensor& t, const float* x, size_t group, float* y) {
    const size_t size = t.channels / op.groups, first = group * size, pixels = t.pixels();
    double sum = 0, squares = 0;
    for (size_t p = 0; p < pixels; ++p)
        for (size_t c = first; c < first + size; ++c) sum += x[p * t.channels + c];
    const double count = double(pixels) * size, mean = sum / count;
    for (size_t p = 0; p < pixels; ++p)
        for (size_t c = first; c < first + size; ++c) {
            const double d = x[p * t.channels + c] - mean;
            squares += d * d;
        }
    const double gain = 1 / std::sqrt(squares / count + *reinterpret_cast<const float*>(op.weights));
    const size_t stride = op.flags & kEveryValue ? t.channels : 0;
    for (size_t p = 0; p < pixels; ++p)
        for (size_t c = first; c < first + size; ++c) {
            float v = float((x[p * t.channels + c] - mean) * gain);
            if (op.scale) v *= op.scale[p * stride + c];
            if (op.bias) v += op.bias[p * stride + c];
            y[p * t.channels + c] = v;
        }
}

}  // namespace binaryduo
