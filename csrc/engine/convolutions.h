// The convolutions of a pass: see runner.h.
#pragma once
#include <algorithm>
#include <cstring>

#include "pass.h"

namespace binaryduo {

struct Model::Convolutions : Model::Pass {
    const uint8_t* weights_of(const Op& op) const {
        const Buffer<uint8_t>& prepared = model.weights_[&op - model.program_.ops.data()];
        return prepared ? prepared.get() : op.weights;
    }

    void binary_conv(const Op& op) {
        const ConvShape s = shape_of(op, tensor(op.input), result_of(model.program_, op), images);
        binary_sums(s, bits(op.input), weights_of(op), epilogue_of(op));
    }

    void binary_sums(const ConvShape& s, const uint8_t* input, const uint8_t* weights, const Epilogue& e) {
        const Kernels& k = model.kernels_;
        std::memset(work.stream + k.stream_bytes(s) - kStreamGuard, 0, kStreamGuard);
        each(s.images * s.padded_height(), kByte * k.stream_bytes(s), [&](size_t row, size_t thread) {
            k.prepare_row(s, input, row, work.stream, work.counts, scratch(thread));
        });
        each(k.binary_items(s), kEightBinaryProducts * products(s), [&](size_t item, size_t thread) {
            k.binary_item(s, work.stream, work.counts, weights, e, item, scratch(thread));
        });
    }

    void float_conv(const Op& op) {
        const Tensor& in = tensor(op.input);
        const ConvShape s = shape_of(op, in, result_of(model.program_, op), images);
        const float* padded = reinterpret_cast<const float*>(work.stream);
        if (in.kind == Kind::kFloat && !s.ph && !s.pw)
            padded = floats(op.input);
        else
            pad<float>(s, in, nullptr, [&](size_t pixel, size_t count, float* out, uint8_t*) {
                if (in.kind == Kind::kFloat)
                    std::memcpy(out, floats(op.input) + pixel * in.channels,
                                count * in.channels * sizeof(float));
                else
                    unpack(in, bits(op.input) + pixel * in.pixel_bytes(), count, 1.0f, out);
            });
        float_sums(s, padded, op.fweights(), epilogue_of(op));
    }

    // Bits that select among float weights.
    void select_conv(const Op& op) {
        const Kernels& k = model.kernels_;
        const Tensor& in = tensor(op.input);
        const ConvShape s = shape_of(op, in, result_of(model.program_, op), images);
        pad<uint8_t>(s, in, nullptr, [&](size_t pixel, size_t count, uint8_t* out, uint8_t*) {
            std::memcpy(out, bits(op.input) + pixel * s.unit, count * s.unit);
        });
        const Epilogue e = epilogue_of(op);
        each(k.select_items(s), kEightSelected * products(s), [&](size_t item, size_t thread) {
            k.select_item(s, in.channels_of_copy(), work.stream, op.fweights(), e, item, scratch(thread));
        });
    }

    void float_sums(const ConvShape& s, const float* padded, const float* weights, const Epilogue& e) {
        const Kernels& k = model.kernels_;
        each(k.float_items(s), kFloatProduct * products(s),
             [&](size_t item, size_t thread) { k.float_item(s, padded, weights, e, item, scratch(thread)); });
    }

    // Bytes, or bits as bytes, times 8-bit weights.
    void byte_conv(const Op& op) {
        const Kernels& k = model.kernels_;
        const Tensor& in = tensor(op.input);
        const ConvShape s = shape_of(op, in, result_of(model.program_, op), images);
        const uint8_t* around =
            in.kind == Kind::kBytes ? op.weights + s.kh * s.segment() * s.channels : nullptr;
        pad<uint8_t>(s, in, around, [&](size_t pixel, size_t count, uint8_t* out, uint8_t*) {
            if (in.kind == Kind::kBytes)
                with_frame_channel(bits(op.input) + pixel * in.channels, count, in.channels, out);
            else
                unpack(in, bits(op.input) + pixel * in.pixel_bytes(), count, uint8_t(1), out);
        });
        std::memset(work.stream + byte_stream(s) - kStreamGuard, 0, kStreamGuard);
        const Epilogue e = epilogue_of(op);
        each(k.byte_items(s), kByteProduct * products(s),
             [&](size_t item, size_t) { k.byte_item(s, work.stream, weights_of(op), e, item); });
    }

    // The input's rows with their frame, in the stream buffer: write(pixel, count, out, scratch) puts `count`
    // pixels from `pixel` on there. `around` is a pixel of the frame; null: zeros.
    template <typename T, typename Write>
    void pad(const ConvShape& s, const Tensor& in, const T* around, Write write) {
        T* padded = reinterpret_cast<T*>(work.stream);
        if (s.images == 1 && s.height == 1 && s.width == images && !s.ph && !s.pw) {  // dense
            each(images, kFloat * images * s.unit, [&](size_t image, size_t thread) {
                write(image * in.pixels(), in.pixels(), padded + image * s.unit, scratch(thread));
            });
            return;
        }
        const auto frame = [&](T* out, size_t pixels) {
            if (!around) return void(std::memset(out, 0, pixels * s.unit * sizeof(T)));
            for (; pixels; --pixels, out += s.unit) std::memcpy(out, around, s.unit * sizeof(T));
        };
        each(s.images * s.padded_height(), kFloat * s.images * s.height * s.width * s.unit,
             [&](size_t item, size_t thread) {
                 const size_t image = item / s.padded_height(), y = item % s.padded_height();
                 T* out = padded + item * s.padded_width() * s.unit;
                 if (y < s.ph || y >= s.ph + s.height) return frame(out, s.padded_width());
                 frame(out, s.pw);
                 frame(out + (s.pw + s.width) * s.unit, s.pw);
                 write((image * s.height + y - s.ph) * s.width, s.width, out + s.pw * s.unit,
                       scratch(thread));
             });
    }

    // Sums first, as floats in a buffer of their own; then the last steps of the whole layer.
    void grouped_conv(const Op& op) {
        const Kernels& k = model.kernels_;
        const Tensor& in = tensor(op.input);
        const Groups g(k, op, in, result_of(model.program_, op), images);
        const size_t row = g.shape.out_width * op.channels, rows = g.shape.images * g.shape.out_height;
        float* sums = reinterpret_cast<float*>(work.stream + room(g.stream_bytes) + room(g.input_bytes));
        const Epilogue e = epilogue_of(op);
        if (!g.spread) {
            for (size_t group = 0; group < op.groups; ++group) group_sums(op, g, group, sums);
            each(rows, 2 * kFloat * rows * row,
                 [&](size_t y, size_t) { k.pointwise(sums, e, y * g.shape.out_width, g.shape.out_width); });
            return;
        }
        spread(op, g);
        const uint8_t* weights = weights_of(op);
        each(rows, (g.binary ? kByte : kFloat) * rows * row * g.group_inputs() / 4, [&](size_t y, size_t) {
            if (g.binary)
                k.grouped_bits_row(g.shape, work.stream, reinterpret_cast<const int8_t*>(weights), y,
                                   sums + y * row);
            else
                k.grouped_floats_row(g.shape, reinterpret_cast<const float*>(work.stream),
                                     reinterpret_cast<const float*>(weights), y, sums + y * row);
            k.pointwise(sums, e, y * g.shape.out_width, g.shape.out_width);
        });
    }

    // Fills the stream for groups that are spread out: bits as bytes 0 and -1.
    void spread(const Op& op, const Groups& g) {
        const Tensor& in = tensor(op.input);
        const auto from_bits = [&](auto one, size_t pixel, auto* channels) {
            unpack(in, bits(op.input) + pixel * in.pixel_bytes(), 1, one, channels);
            return channels;
        };
        if (g.binary) {
            pad<uint8_t>(g.shape, in, nullptr, [&](size_t pixel, size_t count, uint8_t* out, uint8_t* free) {
                for (; count; --count, ++pixel, out += g.shape.unit)
                    spread_pixel(g, from_bits(uint8_t(255), pixel, free), out);
            });
            return;
        }
        pad<float>(g.shape, in, nullptr, [&](size_t pixel, size_t count, float* out, uint8_t* free) {
            for (; count; --count, ++pixel, out += g.shape.unit)
                spread_pixel(g,
                             in.kind == Kind::kBits ? from_bits(1.0f, pixel, reinterpret_cast<float*>(free))
                                                    : floats(op.input) + pixel * in.channels,
                             out);
        });
    }

    // One larger group as a convolution of its own, its sums at their channels of the buffer.
    void group_sums(const Op& op, const Groups& g, size_t group, float* sums) {
        const Tensor& in = tensor(op.input);
        Epilogue e{};
        e.channels = g.outputs, e.copies = 1, e.stride = op.channels;
        e.out_float = sums + group * g.outputs;
        const size_t first = group * g.inputs;
        if (g.binary) {
            uint8_t* picked = work.stream + room(g.stream_bytes);
            const size_t pixels = images * in.pixels(), step = 64;
            each((pixels + step - 1) / step, kByte * g.input_bytes * 8, [&](size_t item, size_t) {
                for (size_t p = item * step; p < std::min(pixels, (item + 1) * step); ++p)
                    pick_bits(in, bits(op.input) + p * in.pixel_bytes(), first, g.inputs,
                              picked + p * g.shape.unit);
            });
            const size_t bytes = model.kernels_.weight_bytes(g.shape);
            const size_t in_file = g.group_inputs() * g.outputs;
            binary_sums(g.shape, picked, weights_of(op) + group * (bytes ? bytes : in_file), e);
            return;
        }
        pad<float>(g.shape, in, nullptr, [&](size_t pixel, size_t count, float* out, uint8_t* free) {
            float* channels = reinterpret_cast<float*>(free);
            for (; count; --count, ++pixel, out += g.inputs) {
                if (in.kind == Kind::kBits)
                    unpack(in, bits(op.input) + pixel * in.pixel_bytes(), 1, 1.0f, channels);
                else
                    channels = floats(op.input) + pixel * in.channels;
                std::memcpy(out, channels + first, g.inputs * sizeof(float));
            }
        });
        float_sums(g.shape, reinterpret_cast<const float*>(work.stream),
                   op.fweights() + group * g.group_inputs() * g.outputs, e);
    }
};

}  // namespace binaryduo
