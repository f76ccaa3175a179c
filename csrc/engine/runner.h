// One pass of a chunk of images through a program, operation by operation. For model.cpp alone.
#pragma once
#include <algorithm>
#include <cstring>

#include "convolutions.h"
#include "float_ops.h"

namespace binaryduo {

struct Model::Runner : Model::Convolutions {
    void pool(const Op& op) {
        const Kernels& k = model.kernels_;
        const Tensor &in = tensor(op.input), &out = result_of(model.program_, op);
        const bool on_bits = in.kind == Kind::kBits;
        const PoolShape s{in.height,  in.width, on_bits ? in.pixel_bytes() : in.channels,
                          op.kh,      op.kw,    op.sh,
                          op.sw,      op.ph,    op.pw,
                          out.height, out.width};
        const double visits = double(images) * out.pixels() * op.kh * op.kw * s.unit;
        each(images * out.height, visits * (on_bits ? kByte : kFloat), [&](size_t item, size_t) {
            const size_t image = item / out.height, y = item % out.height;
            const size_t from = image * in.pixels() * s.unit, to = item * out.width * s.unit;
            if (on_bits)
                k.or_pool_row(s, bits(op.input) + from, op.flip, y, bits(op.out_bits) + to);
            else if (op.code == Code::kMaxPool)
                k.max_pool_row(s, floats(op.input) + from, y, floats(op.out_float) + to);
            else
                k.average_pool_row(s, floats(op.input) + from, y, floats(op.out_float) + to);
        });
    }

    void pointwise(const Op& op) {
        const Tensor& in = tensor(op.input);
        const size_t step = std::max<size_t>(1, 16384 / in.channels), pixels = images * in.pixels();
        const Epilogue e = epilogue_of(op);
        const float* input = floats(op.input);
        each((pixels + step - 1) / step, 2 * kFloat * pixels * in.channels, [&](size_t item, size_t) {
            model.kernels_.pointwise(input, e, item * step, std::min(step, pixels - item * step));
        });
    }

    // The rest moves channels about: one pixel at a time.
    template <typename F>
    void each_pixel(const Tensor& t, F task) {
        const size_t step = 64, pixels = images * t.pixels();
        each((pixels + step - 1) / step, kFloat * pixels * t.channels, [&](size_t item, size_t) {
            for (size_t p = item * step; p < std::min(pixels, (item + 1) * step); ++p) task(p);
        });
    }

    void mean_copies(const Op& op) {
        const Tensor &in = tensor(op.input), &out = tensor(op.out_float);
        const uint32_t* index = op.listed.empty() ? nullptr : op.listed.data();
        each_pixel(in, [&](size_t p) {
            const float* __restrict x = floats(op.input) + p * in.channels;
            float* __restrict y = floats(op.out_float) + p * out.channels;
            if (op.copies == 2 && !index) {
                for (size_t c = 0; c < out.channels; ++c) y[c] = (x[c] + x[out.channels + c]) * 0.5f;
                return;
            }
            std::memset(y, 0, out.channels * sizeof(float));
            for (size_t first = 0; first < op.copies * out.channels; first += out.channels)
                if (index)
                    for (size_t c = 0; c < out.channels; ++c) y[c] += x[index[first + c]];
                else
                    for (size_t c = 0; c < out.channels; ++c) y[c] += x[first + c];
            for (size_t c = 0; c < out.channels; ++c) y[c] /= float(op.copies);
        });
    }

    void pad_channels(const Op& op) {
        const Tensor &in = tensor(op.input), &out = tensor(op.out_float);
        each_pixel(in, [&](size_t p) {
            float* y = floats(op.out_float) + p * out.channels;
            std::memset(y, 0, out.channels * sizeof(float));
            std::memcpy(y + op.channels, floats(op.input) + p * in.channels, in.channels * sizeof(float));
        });
    }

    void concat(const Op& op) {
        const Tensor &a = tensor(op.input), &b = tensor(op.residual), &out = tensor(op.out_float);
        each_pixel(a, [&](size_t p) {
            float* y = floats(op.out_float) + p * out.channels;
            std::memcpy(y, floats(op.input) + p * a.channels, a.channels * sizeof(float));
            std::memcpy(y + a.channels, floats(op.residual) + p * b.channels, b.channels * sizeof(float));
        });
    }

    void curve(const Op& op) {
        const Tensor& t = tensor(op.input);
        const size_t step = std::max<size_t>(1, 4096 / t.channels), pixels = images * t.pixels();
        const float* parameters = reinterpret_cast<const float*>(op.weights);
        each((pixels + step - 1) / step, 20 * kFloat * pixels * t.channels, [&](size_t item, size_t) {
            const size_t first = item * step * t.channels;
            binaryduo::curve(Curve(op.function), parameters, floats(op.input) + first,
                             floats(op.out_float) + first, std::min(step, pixels - item * step), t.channels);
        });
    }

    void join(const Op& op) {
        const Tensor &a = tensor(op.input), &b = tensor(op.residual);
        const bool one = b.pixels() == 1;
        each_pixel(a, [&](size_t p) {
            const size_t other = one ? p / a.pixels() : p;
            binaryduo::join(Join(op.function), floats(op.input) + p * a.channels,
                            floats(op.residual) + other * b.channels, b.channels != 1,
                            floats(op.out_float) + p * a.channels, a.channels);
        });
    }

    void resample(const Op& op) {
        const Tensor &in = tensor(op.input), &out = tensor(op.out_float);
        each(images * out.height, 4 * kFloat * images * out.pixels() * out.channels,
             [&](size_t item, size_t) {
                 const float* image = floats(op.input) + item / out.height * in.pixels() * in.channels;
                 resample_row(in, out, op.listed.data(), op.scale, image, item % out.height,
                              floats(op.out_float) + item * out.width * out.channels);
             });
    }

    void normalise(const Op& op) {
        const Tensor& t = tensor(op.input);
        each(images * op.groups, 4 * kFloat * images * t.pixels() * t.channels, [&](size_t item, size_t) {
            const size_t first = item / op.groups * t.pixels() * t.channels;
            binaryduo::normalise(op, t, floats(op.input) + first, item % op.groups,
                                 floats(op.out_float) + first);
        });
    }

    void lookup(const Op& op) {
        const Tensor& t = tensor(op.input);
        each(images * t.height, kFloat * images * t.pixels() * t.channels, [&](size_t row, size_t) {
            const float* table = reinterpret_cast<const float*>(op.weights);
            const size_t values = size_t(t.width) * t.channels;
            const uint8_t* __restrict in = bits(op.input) + row * values;
            float* __restrict out = floats(op.out_float) + row * values;
            if (t.channels == 3)
                for (size_t i = 0; i < values; i += 3) {
                    out[i] = table[in[i]];
                    out[i + 1] = table[256 + in[i + 1]];
                    out[i + 2] = table[512 + in[i + 2]];
                }
            else
                for (size_t i = 0; i < values; ++i) out[i] = table[i % t.channels * 256 + in[i]];
        });
    }

    void run(const Op& op) {
        switch (op.code) {
            case Code::kBinaryConv:
            case Code::kFloatConv:
                if (op.groups > 1)
                    grouped_conv(op);
                else if (op.code == Code::kBinaryConv)
                    binary_conv(op);
                else if (on_bytes(op, tensor(op.input)))
                    byte_conv(op);
                else if (selects(op, tensor(op.input), result_of(model.program_, op)))
                    select_conv(op);
                else
                    float_conv(op);
                break;
            case Code::kMaxPool:
            case Code::kAveragePool:
                pool(op);
                break;
            case Code::kPointwise:
                pointwise(op);
                break;
            case Code::kMeanCopies:
                mean_copies(op);
                break;
            case Code::kPadChannels:
                pad_channels(op);
                break;
            case Code::kUnpack:
                each_pixel(tensor(op.input), [&](size_t p) {
                    const Tensor& t = tensor(op.input);
                    unpack(t, bits(op.input) + p * t.pixel_bytes(), 1, 1.0f,
                           floats(op.out_float) + p * t.channels);
                });
                break;
            case Code::kConcat:
                concat(op);
                break;
            case Code::kCurve:
                curve(op);
                break;
            case Code::kJoin:
                join(op);
                break;
            case Code::kResample:
                resample(op);
                break;
            case Code::kNormalise:
                normalise(op);
                break;
            case Code::kLookup:
                lookup(op);
                break;
        }
    }
};

}  // namespace binaryduo
