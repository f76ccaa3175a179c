// What all operations of a pass share: see runner.h.
#pragma once
#include <cstring>
#include <new>

#include "model.h"
#include "shapes.h"

namespace binaryduo {

// About what things take on one thread, in nanoseconds: enough to tell what is worth sharing. Waking the
// others and waiting for the last of them takes 2 to 4 microseconds.
constexpr double kWorthSharing = 6000, kByte = 0.1, kFloat = 0.2;
constexpr double kEightBinaryProducts = 8.0 / 500, kFloatProduct = 1.0 / 30, kByteProduct = 1.0 / 60,
                 kEightSelected = 8.0 / 100;

// A part of the arena: its bytes, and after them room for a vector's last load.
inline size_t room(size_t bytes) { return (bytes + 127) / 64 * 64; }

// Refuses what 64-bit (or, in a browser, 32-bit) numbers of bytes would not hold.
inline void check_size(double bytes) {
    if (bytes > double(SIZE_MAX / 16)) throw std::bad_alloc();
}

inline double products(const ConvShape& s) { return double(s.pixels()) * s.channels * s.kh * s.kw * s.unit; }

// The parts of an arena.
struct Model::Workspace {
    uint8_t* tensors;
    uint8_t* stream;
    uint16_t* counts;
    uint8_t* scratch;  // one part after another for each thread
};

// One pass of a chunk of images through the program: its memory, its threads, its input and outputs.
struct Model::Pass {
    const Model& model;
    const Workspace& work;
    size_t images;

    // Calls task for all items, on all threads where that pays: `nanoseconds` is about what one thread needs.
    template <typename F>
    void each(size_t items, double nanoseconds, F task) const {
        each_item(
            items, nanoseconds,
            [](void* self, size_t item, size_t thread) { (*static_cast<F*>(self))(item, thread); }, &task);
    }

    __attribute__((noinline)) void each_item(size_t items, double nanoseconds, duo_task task,
                                             void* self) const {
        const duo_options& o = model.options_;
        if (o.threads > 1 && items > 1 && nanoseconds > kWorthSharing)
            return o.share(o.pool, o.threads, items, task, self);
        for (size_t item = 0; item < items; ++item) task(self, item, 0);
    }

    const Tensor& tensor(int32_t i) const { return model.program_.tensors[i]; }
    uint8_t* bits(int32_t i) const {
        return i < 0 ? nullptr : work.tensors + model.program_.offsets[i] * model.chunk_;
    }
    float* floats(int32_t i) const { return reinterpret_cast<float*>(bits(i)); }
    uint8_t* scratch(size_t thread) const { return work.scratch + thread * room(model.scratch_bytes_); }

    void read_images(const void* source) {
        if (tensor(model.program_.input).kind == Kind::kBytes)
            read_planes(static_cast<const uint8_t*>(source), bits(model.program_.input));
        else
            read_planes(static_cast<const float*>(source), floats(model.program_.input));
    }

    // N × C × H × W becomes N × H × W × C.
    template <typename T>
    void read_planes(const T* source, T* out) {
        const Tensor& t = tensor(model.program_.input);
        each(images * t.height, kFloat * images * t.image_bytes(), [&](size_t item, size_t) {
            const size_t image = item / t.height, y = item % t.height;
            const T* in = source + (image * t.channels * t.height + y) * t.width;
            T* o = out + item * t.width * t.channels;
            const size_t plane = t.pixels();
            if (t.channels == 3) {
                for (size_t x = 0; x < t.width; ++x, o += 3)
                    o[0] = in[x], o[1] = in[plane + x], o[2] = in[2 * plane + x];
                return;
            }
            for (size_t c = 0; c < t.channels; ++c)
                for (size_t x = 0; x < t.width; ++x) o[x * t.channels + c] = in[c * plane + x];
        });
    }

    void write_output(int32_t output, float* target) {
        const Tensor& t = tensor(output);
        const float* in = floats(output);
        for (size_t image = 0; image < images; ++image)
            for (size_t p = 0; p < t.pixels(); ++p)
                for (size_t c = 0; c < t.channels; ++c)
                    target[(image * t.channels + c) * t.pixels() + p] =
                        in[(image * t.pixels() + p) * t.channels + c];
    }

    Epilogue epilogue_of(const Op& op) const {
        Epilogue e{};
        e.channels = op.channels;
        e.copies = op.copies;
        e.stride = size_t(op.channels) * op.copies;
        e.scale = op.scale;
        e.bias = op.bias;
        e.residual = op.residual >= 0 ? floats(op.residual) : nullptr;
        if (!op.float_threshold.empty()) {
            e.threshold = op.float_threshold.data();
        } else if (op.integer_threshold()) {
            e.threshold32 = static_cast<const int32_t*>(op.threshold);
            e.threshold16 = op.threshold16.empty() ? nullptr : op.threshold16.data();
            for (int odd : {0, 1}) e.half_threshold[odd] = op.half_threshold[odd].data();
        } else {
            e.threshold = static_cast<const float*>(op.threshold);
        }
        e.flip = op.flip;
        e.relu = op.relu();
        e.out_float = floats(op.out_float);
        e.out_bits = bits(op.out_bits);
        return e;
    }
};

}  // namespace binaryduo
