#include "model.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "float_ops.h"

namespace binaryduo {

namespace {

// A dense layer's output is one pixel: its images become the pixels of one row, so that pairs of images are
// counted together and weights are read once for many images.
ConvShape shape_of(const Op& op, const Tensor& in, const Tensor& out, size_t images) {
    const size_t unit = op.code == Code::kBinaryConv ? in.pixel_bytes() : in.channels;
    if (op.kh == in.height && op.kw == in.width && out.pixels() == 1 && !op.ph && !op.pw)
        return {1, 1, images, unit * in.pixels(), 1, 1, 1, 1, 0, 0, 1, images, op.channels};
    return {images, in.height, in.width, unit,       op.kh,     op.kw,      op.sh,
            op.sw,  op.ph,     op.pw,    out.height, out.width, op.channels};
}

const Tensor& result_of(const Program& program, const Op& op) {
    return program.tensors[op.out_float >= 0 ? op.out_float : op.out_bits];
}

size_t stream_of(const Kernels& kernels, const Op& op, const ConvShape& s) {
    if (op.code == Code::kBinaryConv) return kernels.stream_bytes(s);
    return (s.images * s.padded_height() * s.padded_width() * s.unit) * sizeof(float);
}

// About what things take on one thread, in nanoseconds: enough to tell what is worth sharing. Waking the
// others and waiting for the last of them takes 2 to 4 microseconds.
constexpr double kWorthSharing = 6000, kByte = 0.1, kFloat = 0.2;
constexpr double kEightBinaryProducts = 8.0 / 500, kFloatProduct = 1.0 / 30;

// A part of the arena: its bytes, and after them room for a vector's last load.
size_t room(size_t bytes) { return (bytes + 127) / 64 * 64; }

// Refuses what 64-bit (or, in a browser, 32-bit) numbers of bytes would not hold.
void check_size(double bytes) {
    if (bytes > double(SIZE_MAX / 16)) throw std::bad_alloc();
}

double products(const ConvShape& s) { return double(s.pixels()) * s.channels * s.kh * s.kw * s.unit; }

}  // namespace

// The parts of an arena.
struct Model::Workspace {
    uint8_t* tensors;
    uint8_t* stream;
    uint16_t* counts;
    uint8_t* scratch;  // one part after another for each thread
};

// One pass of a chunk of images through the program.
struct Model::Runner {
    const Model& model;
    const Workspace& work;
    size_t images;

    // Calls task for all items, on all threads where that pays: `nanoseconds` is about what one thread needs.
    template <typename F>
    void each(size_t items, double nanoseconds, F task) {
        const duo_options& o = model.options_;
        if (o.threads < 2 || items < 2 || nanoseconds <= kWorthSharing) {
            for (size_t item = 0; item < items; ++item) task(item, size_t(0));
            return;
        }
        o.share(
            o.pool, o.threads, items,
            [](void* self, size_t item, size_t thread) { (*static_cast<F*>(self))(item, thread); }, &task);
    }

    const Tensor& tensor(int32_t i) const { return model.program_.tensors[i]; }
    uint8_t* bits(int32_t i) const {
        return i < 0 ? nullptr : work.tensors + model.program_.offsets[i] * model.chunk_;
    }
    float* floats(int32_t i) const { return reinterpret_cast<float*>(bits(i)); }
    uint8_t* scratch(size_t thread) const { return work.scratch + thread * room(model.scratch_bytes_); }

    void read_images(const float* source) {
        const Tensor& t = tensor(model.program_.input);
        float* out = floats(model.program_.input);
        each(images * t.height, kFloat * images * t.image_bytes(), [&](size_t item, size_t) {
            const size_t image = item / t.height, y = item % t.height;
            for (size_t c = 0; c < t.channels; ++c) {
                const float* in = source + ((image * t.channels + c) * t.height + y) * t.width;
                float* o = out + (image * t.height + y) * t.width * t.channels + c;
                for (size_t x = 0; x < t.width; ++x) o[x * t.channels] = in[x];
            }
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
        e.scale = op.scale;
        e.bias = op.bias;
        e.residual = op.residual >= 0 ? floats(op.residual) : nullptr;
        if (op.integer_threshold()) {
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

    void binary_conv(const Op& op, size_t number) {
        const Kernels& k = model.kernels_;
        const ConvShape s = shape_of(op, tensor(op.input), result_of(model.program_, op), images);
        const uint8_t* input = bits(op.input);
        std::memset(work.stream + k.stream_bytes(s) - kStreamGuard, 0, kStreamGuard);
        each(s.images * s.padded_height(), kByte * k.stream_bytes(s), [&](size_t row, size_t thread) {
            k.prepare_row(s, input, row, work.stream, work.counts, scratch(thread));
        });
        const Epilogue e = epilogue_of(op);
        const Buffer<uint8_t>& prepared = model.weights_[number];
        const uint8_t* weights = prepared ? prepared.get() : op.weights;
        each(k.binary_items(s), kEightBinaryProducts * products(s), [&](size_t item, size_t thread) {
            k.binary_item(s, work.stream, work.counts, weights, e, item, scratch(thread));
        });
    }

    void float_conv(const Op& op) {
        const Kernels& k = model.kernels_;
        const Tensor& in = tensor(op.input);
        const ConvShape s = shape_of(op, in, result_of(model.program_, op), images);
        const float* padded = reinterpret_cast<const float*>(work.stream);
        if (in.kind == Kind::kFloat && !s.ph && !s.pw)
            padded = floats(op.input);
        else
            pad(op, in, s);
        const Epilogue e = epilogue_of(op);
        each(k.float_items(s), kFloatProduct * products(s), [&](size_t item, size_t thread) {
            k.float_item(s, padded, op.fweights(), e, item, scratch(thread));
        });
    }

    // The input as floats with its zero frame, in the stream buffer.
    void pad(const Op& op, const Tensor& in, const ConvShape& s) {
        float* padded = reinterpret_cast<float*>(work.stream);
        if (s.images == 1 && s.height == 1 && !s.ph && !s.pw) {  // dense, bits in
            each(images * in.pixels(), kFloat * images * in.pixels() * in.channels, [&](size_t p, size_t) {
                unpack(in, bits(op.input) + p * in.pixel_bytes(), padded + p * in.channels);
            });
            return;
        }
        const size_t row = s.padded_width() * s.unit;
        each(s.images * s.padded_height(), kFloat * s.images * in.pixels() * in.channels,
             [&](size_t item, size_t) {
                 const size_t image = item / s.padded_height(), y = item % s.padded_height();
                 float* out = padded + item * row;
                 if (y < s.ph || y >= s.ph + s.height) {
                     std::memset(out, 0, row * sizeof(float));
                     return;
                 }
                 std::memset(out, 0, s.pw * s.unit * sizeof(float));
                 std::memset(out + (s.pw + s.width) * s.unit, 0, s.pw * s.unit * sizeof(float));
                 out += s.pw * s.unit;
                 const size_t first = (image * s.height + y - s.ph) * s.width;
                 if (in.kind == Kind::kFloat) {
                     std::memcpy(out, floats(op.input) + first * s.unit, s.width * s.unit * sizeof(float));
                     return;
                 }
                 for (size_t x = 0; x < s.width; ++x)
                     unpack(in, bits(op.input) + (first + x) * in.pixel_bytes(), out + x * s.unit);
             });
    }

    static void unpack(const Tensor& t, const uint8_t* pixel, float* out) {
        const size_t channels = t.channels_of_copy();
        for (size_t copy = 0; copy < t.copies; ++copy, pixel += t.copy_bytes())
            for (size_t c = 0; c < channels; ++c) *out++ = float((pixel[c / 8] >> (c % 8)) & 1);
    }

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

    void run(const Op& op) {
        switch (op.code) {
            case Code::kBinaryConv:
                binary_conv(op, size_t(&op - model.program_.ops.data()));
                break;
            case Code::kFloatConv:
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
                    unpack(t, bits(op.input) + p * t.pixel_bytes(), floats(op.out_float) + p * t.channels);
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
        }
    }
};

Model::Model(Program program, const duo_options& options)
    : program_(std::move(program)), kernels_(choose_kernels()), options_(options) {
    // As many images together as fit in about 4 MiB, so that a dense layer's weights are read less often
    // and activations still come from the cache.
    chunk_ = options_.together;
    if (!chunk_)
        chunk_ = std::clamp<size_t>((size_t(4) << 20) / std::max<size_t>(program_.arena_bytes, 1), 1, 64);
    check_size(double(program_.arena_bytes) * double(chunk_));
    stream_bytes_ = counts_bytes_ = scratch_bytes_ = 0;
    weights_.resize(program_.ops.size());
    for (const Op& op : program_.ops) {
        if (op.code != Code::kBinaryConv && op.code != Code::kFloatConv) continue;
        const ConvShape s = shape_of(op, program_.tensors[op.input], result_of(program_, op), chunk_);
        // 16: more than any kernel's stream has for one byte or float of input
        check_size(16.0 * double(s.images) * double(s.padded_height()) * double(s.padded_width()) *
                   double(s.unit));
        if (op.code == Code::kBinaryConv) prepare_weights(op, s);
        stream_bytes_ = std::max(stream_bytes_, stream_of(kernels_, op, s));
        scratch_bytes_ = std::max(scratch_bytes_, kernels_.scratch_bytes(s));
        counts_bytes_ =
            std::max(counts_bytes_, s.images * s.padded_height() * s.padded_width() * sizeof(uint16_t));
    }
    check_size(double(room(scratch_bytes_)) * double(options_.threads));
}

void Model::prepare_weights(const Op& op, const ConvShape& s) {
    const size_t bytes = kernels_.weight_bytes(s);
    if (!bytes) return;
    Buffer<uint8_t>& weights = weights_[&op - program_.ops.data()];
    weights = zeros<uint8_t>(bytes);
    kernels_.prepare_weights(s, op.weights, weights.get());
}

const char* Model::binary_kernel(size_t number) const {
    const Op& op = program_.ops.at(number);
    if (op.code != Code::kBinaryConv) return "";
    return kernels_.binary_kernel(shape_of(op, program_.tensors[op.input], result_of(program_, op), 1));
}

size_t Model::arena_bytes() const {
    return 63 + room(program_.arena_bytes * chunk_) + room(stream_bytes_) + room(counts_bytes_) +
           room(scratch_bytes_) * options_.threads;
}

Model::Workspace Model::lay_out(void* arena) const {
    uint8_t* at = static_cast<uint8_t*>(arena);
    at += (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64;
    const auto take = [&](size_t bytes) {
        uint8_t* part = at;
        at += room(bytes);
        return part;
    };
    Workspace work;
    work.tensors = take(program_.arena_bytes * chunk_);
    work.stream = take(stream_bytes_);
    work.counts = reinterpret_cast<uint16_t*>(take(counts_bytes_));
    work.scratch = at;
    return work;
}

void Model::run(const float* images, size_t count, void* const* outputs, void* arena, duo_watch watch,
                void* watcher) const {
    const Workspace work = lay_out(arena);
    const Tensor& in = program_.tensors[program_.input];
    for (size_t first = 0; first < count; first += chunk_) {
        Runner runner{*this, work, std::min(chunk_, count - first)};
        const auto written = [&](size_t operation, int32_t tensor) {
            if (!watch || tensor < 0) return;
            const duo_written w{operation, uint32_t(tensor), first, runner.images, runner.bits(tensor)};
            watch(watcher, &w);
        };
        runner.read_images(images + first * in.pixels() * in.channels);
        written(DUO_INPUTS, program_.input);
        for (size_t i = 0; i < program_.ops.size(); ++i) {
            runner.run(program_.ops[i]);
            written(i, program_.ops[i].out_float);
            written(i, program_.ops[i].out_bits);
        }
        for (size_t i = 0; i < program_.outputs.size(); ++i) {
            const Tensor& t = program_.tensors[program_.outputs[i]];
            runner.write_output(program_.outputs[i],
                                static_cast<float*>(outputs[i]) + first * t.pixels() * t.channels);
        }
    }
}

}  // namespace binaryduo
