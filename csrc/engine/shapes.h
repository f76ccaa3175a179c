// How the operations of a program become shapes for the kernels, and how bits and groups of channels are laid
// out for them. For runner.h and model.cpp.
#pragma once
#include <algorithm>
#include <cstring>

#include "../common/buffer.h"
#include "kernels.h"

namespace binaryduo {

// Whether bits select which of a layer's float weights are added (select_conv.h), which adds them up in
// another order: so it depends on the layer alone, on every machine and for any number of images. A table
// must serve enough pixels, and have enough inputs.
inline bool selects(const Op& op, const Tensor& in, const Tensor& out) {
    return op.code == Code::kFloatConv && in.kind == Kind::kBits && !op.byte_weights() && op.groups == 1 &&
           out.pixels() >= 25 && in.channels >= 4 * in.pixel_bytes();
}

// A pixel of bytes has one more, which is zero inside of the image: in the frame around it neither a byte nor
// zero is what normalises to zero, and a byte and the weight of this one are near enough.
//
// A dense layer's output is one pixel: its images become the pixels of one row, so that pairs of images are
// counted together and weights are read once for many images.
inline ConvShape shape_of(const Op& op, const Tensor& in, const Tensor& out, size_t images) {
    const size_t unit = op.code == Code::kBinaryConv || selects(op, in, out) ? in.pixel_bytes()
                        : in.kind == Kind::kBytes                            ? in.channels + 1
                                                                             : in.channels;
    if (op.kh == in.height && op.kw == in.width && out.pixels() == 1 && !op.ph && !op.pw)
        return {1, 1, images, unit * in.pixels(), 1, 1, 1, 1, 0, 0, 1, images, op.channels};
    return {images, in.height, in.width, unit,       op.kh,     op.kw,      op.sh,
            op.sw,  op.ph,     op.pw,    out.height, out.width, op.channels};
}

inline const Tensor& result_of(const Program& program, const Op& op) {
    return program.tensors[op.out_float >= 0 ? op.out_float : op.out_bits];
}

// Whether a float convolution adds whole numbers: bytes or bits times 8-bit weights.
inline bool on_bytes(const Op& op, const Tensor& in) { return op.byte_weights() && in.kind != Kind::kFloat; }

inline size_t padded_values(const ConvShape& s) {
    return s.images * s.padded_height() * s.padded_width() * s.unit;
}
inline size_t byte_stream(const ConvShape& s) { return padded_values(s) + kStreamGuard; }

inline size_t stream_of(const Kernels& kernels, const Op& op, const Tensor& in, const Tensor& out,
                        const ConvShape& s) {
    if (op.code == Code::kBinaryConv) return kernels.stream_bytes(s);
    if (selects(op, in, out)) return padded_values(s);
    return on_bytes(op, in) ? byte_stream(s) : padded_values(s) * sizeof(float);
}

// The eight bits of a byte as eight bytes, 0 and 1.
struct Unit {
    uint8_t bytes[256][8];
    constexpr Unit() : bytes() {
        for (int byte = 0; byte < 256; ++byte)
            for (int bit = 0; bit < 8; ++bit) bytes[byte][bit] = uint8_t(byte >> bit & 1);
    }
};
constexpr Unit kUnit;

// `count` pixels of bits as one number a channel: 0 and `one`.
template <typename T>
__attribute__((noinline)) void unpack(const Tensor& t, const uint8_t* pixels, size_t count, T one, T* out) {
    const size_t channels = t.channels_of_copy();
    for (size_t copy = 0; copy < count * t.copies; ++copy)
        for (size_t c = 0; c < channels; c += 8) {
            const uint8_t* bits = kUnit.bytes[*pixels++];
            const size_t n = std::min<size_t>(8, channels - c);
            T eight[8];
            if constexpr (sizeof(T) == 1) {  // eight products at once: each is below 256
                uint64_t word;
                std::memcpy(&word, bits, 8);
                word *= one;
                std::memcpy(eight, &word, 8);
            } else {
                for (size_t i = 0; i < 8; ++i) eight[i] = T(bits[i] * one);
            }
            if (n == 8)
                std::memcpy(out, eight, sizeof eight);
            else
                std::memcpy(out, eight, n * sizeof(T));
            out += n;
        }
}

// Pixels of bytes with the one more that tells the frame.
inline void with_frame_channel(const uint8_t* pixels, size_t count, size_t channels, uint8_t* out) {
    if (channels == 3) {  // one store for a pixel
        for (; count; --count, pixels += 3, out += 4) {
            const uint8_t pixel[4] = {pixels[0], pixels[1], pixels[2], 0};
            std::memcpy(out, pixel, 4);
        }
        return;
    }
    for (; count; --count, pixels += channels, out += channels + 1) {
        std::memcpy(out, pixels, channels);
        out[channels] = 0;
    }
}

// The weights of one plane, laid out for all planes of the input: for each tap, the same bytes again. (The
// file has them in blocks of 32 channels.)
inline Buffer<uint8_t> repeat_weights(const Op& op, const Tensor& in) {
    const size_t taps = size_t(op.kh) * op.kw;
    Buffer<uint8_t> all = zeros<uint8_t>(taps * in.pixel_bytes() * op.channels);
    const uint8_t* from = op.weights;
    uint8_t* to = all.get();
    for (size_t first = 0; first < op.channels; first += 32) {
        const size_t bytes = in.copy_bytes() * std::min<size_t>(32, op.channels - first);
        for (size_t tap = 0; tap < taps; ++tap, from += bytes)
            for (size_t plane = 0; plane < in.copies; ++plane, to += bytes) std::memcpy(to, from, bytes);
    }
    return all;
}

// How a grouped convolution runs: groups of few inputs are spread out (grouped_conv.h), larger ones are plain
// convolutions one after the other.
struct Groups {
    static constexpr size_t kSpread = 8;  // most inputs of a group that is spread out

    size_t inputs, outputs;  // channels of one group
    bool spread, binary;
    ConvShape shape;                       // of all groups spread out, or of one
    size_t stream_bytes, input_bytes = 0;  // of the stream; of one group's bits

    Groups(const Kernels& k, const Op& op, const Tensor& in, const Tensor& out, size_t images)
        : inputs(in.channels / op.groups),
          outputs(op.channels / op.groups),
          spread(inputs <= kSpread),
          binary(op.code == Code::kBinaryConv) {
        const size_t unit = spread ? inputs * op.channels : binary ? (inputs + 7) / 8 : inputs;
        shape = {images,
                 in.height,
                 in.width,
                 unit,
                 op.kh,
                 op.kw,
                 op.sh,
                 op.sw,
                 op.ph,
                 op.pw,
                 out.height,
                 out.width,
                 spread ? op.channels : outputs};
        if (binary && !spread) {
            stream_bytes = k.stream_bytes(shape);
            input_bytes = images * in.pixels() * unit;
        } else {
            stream_bytes = padded_values(shape) * (binary ? 1 : sizeof(float));
        }
    }
    size_t group_inputs() const { return shape.kh * shape.kw * (spread ? inputs : shape.unit); }
};

// A pixel's channels as planes: plane i holds for every output channel input i of its group.
template <typename T>
void spread_pixel(const Groups& g, const T* channels, T* out) {
    if (g.inputs == 1 && g.outputs == 1)
        return void(std::memcpy(out, channels, g.shape.channels * sizeof(T)));
    for (size_t i = 0; i < g.inputs; ++i)
        for (size_t c = 0; c < g.shape.channels; c += g.outputs)
            out = std::fill_n(out, g.outputs, channels[c / g.outputs * g.inputs + i]);
}

// The weights of all groups, laid out like the planes: from `weight(channel, k)`, k over (ky, kx, channel).
template <typename T, typename Weight>
void spread_weights(const Groups& g, Weight weight, T* out) {
    for (size_t k = 0; k < g.group_inputs(); ++k)
        for (size_t c = 0; c < g.shape.channels; ++c) *out++ = weight(c, k);
}

// Where the file has weight k of output channel c, in blocks of `block` channels of a group.
inline size_t file_place(const Groups& g, size_t c, size_t k, size_t block, size_t inputs) {
    const size_t group = c / g.outputs, own = c % g.outputs, first = own / block * block;
    const size_t width = std::min(block, g.outputs - first);
    return (group * g.outputs + first) * inputs + k * width + own - first;
}
// A weight of a spread binary layer: a pixel of a group of at most 8 inputs is one byte in the file.
inline bool file_bit(const Groups& g, const uint8_t* weights, size_t c, size_t k) {
    const size_t taps = g.shape.kh * g.shape.kw;
    return weights[file_place(g, c, k / g.inputs, 32, taps)] >> k % g.inputs & 1;
}

// The bits of one group of a pixel, from its first channel on, as a pixel of their own.
inline void pick_bits(const Tensor& t, const uint8_t* pixel, size_t first, size_t count, uint8_t* out) {
    const size_t of_copy = t.channels_of_copy();
    if (t.copies == 1 && first % 8 == 0 && count % 8 == 0)
        return void(std::memcpy(out, pixel + first / 8, count / 8));
    std::memset(out, 0, (count + 7) / 8);
    for (size_t i = 0; i < count; ++i) {
        const size_t channel = first + i, c = channel % of_copy;
        const uint8_t byte = pixel[channel / of_copy * t.copy_bytes() + c / 8];
        out[i / 8] = uint8_t(out[i / 8] | (byte >> c % 8 & 1) << i % 8);
    }
}

}  // namespace binaryduo
