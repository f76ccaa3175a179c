#include "model.h"

#include <algorithm>
#include <new>

#include "runner.h"

namespace binaryduo {

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
        if (op.groups > 1)
            reserve_groups(op);
        else
            reserve(op);
    }
    check_size(double(room(scratch_bytes_)) * double(options_.threads));
}

// Grows what one convolution on such an input needs.
void Model::reserve_shape(const ConvShape& s) {
    // 16: more than any kernel's stream has for one byte or float of input
    check_size(16.0 * double(s.images) * double(s.padded_height()) * double(s.padded_width()) *
               double(s.unit));
    scratch_bytes_ = std::max(scratch_bytes_, kernels_.scratch_bytes(s));
    counts_bytes_ =
        std::max(counts_bytes_, s.images * s.padded_height() * s.padded_width() * sizeof(uint16_t));
}

void Model::reserve(const Op& op) {
    const Tensor& in = program_.tensors[op.input];
    const Tensor& out = result_of(program_, op);
    const ConvShape s = shape_of(op, in, out, chunk_);
    reserve_shape(s);
    stream_bytes_ = std::max(stream_bytes_, stream_of(kernels_, op, in, out, s));
    if (selects(op, in, out)) scratch_bytes_ = std::max(scratch_bytes_, kernels_.select_scratch);
    const bool binary = op.code == Code::kBinaryConv;
    const size_t bytes = binary             ? kernels_.weight_bytes(s)
                         : on_bytes(op, in) ? kernels_.byte_weight_bytes(s)
                                            : 0;
    Buffer<uint8_t>& weights = weights_[&op - program_.ops.data()];
    Buffer<uint8_t> repeated;
    if (op.shared_weights()) repeated = repeat_weights(op, in);
    if (!bytes) return void(weights = std::move(repeated));
    weights = zeros<uint8_t>(bytes);
    if (binary)
        kernels_.prepare_weights(s, repeated ? repeated.get() : op.weights, weights.get());
    else
        kernels_.prepare_byte_weights(s, reinterpret_cast<const int8_t*>(op.weights), weights.get());
}

void Model::reserve_groups(const Op& op) {
    const Tensor& in = program_.tensors[op.input];
    const Groups g(kernels_, op, in, result_of(program_, op), chunk_);
    reserve_shape(g.shape);
    scratch_bytes_ = std::max(scratch_bytes_, in.channels * sizeof(float));
    const double sums = double(g.shape.pixels()) * double(op.channels) * sizeof(float);
    check_size(sums);
    stream_bytes_ = std::max(stream_bytes_, room(g.stream_bytes) + room(g.input_bytes) + size_t(sums));
    Buffer<uint8_t>& weights = weights_[&op - program_.ops.data()];
    const size_t all = g.group_inputs() * op.channels;
    if (g.spread && g.binary) {
        weights = zeros<uint8_t>(all);
        spread_weights(
            g, [&](size_t c, size_t k) { return file_bit(g, op.weights, c, k) ? int8_t(1) : int8_t(-1); },
            reinterpret_cast<int8_t*>(weights.get()));
    } else if (g.spread) {
        weights = zeros<uint8_t>(all * sizeof(float));
        spread_weights(
            g, [&](size_t c, size_t k) { return op.fweights()[file_place(g, c, k, 16, g.group_inputs())]; },
            reinterpret_cast<float*>(weights.get()));
    } else if (const size_t bytes = g.binary ? kernels_.weight_bytes(g.shape) : 0) {
        weights = zeros<uint8_t>(bytes * op.groups);
        for (size_t i = 0; i < op.groups; ++i)
            kernels_.prepare_weights(g.shape, op.weights + i * g.group_inputs() * g.outputs,
                                     weights.get() + i * bytes);
    }
}

const char* Model::bit_kernel(size_t number) const {
    const Op& op = program_.ops.at(number);
    if (selects(op, program_.tensors[op.input], result_of(program_, op))) return "select";
    if (op.code != Code::kBinaryConv) return "";
    if (op.groups > 1) {
        const Groups g(kernels_, op, program_.tensors[op.input], result_of(program_, op), 1);
        return g.spread ? "groups" : kernels_.binary_kernel(g.shape);
    }
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

void Model::run(const void* images, size_t count, void* const* outputs, void* arena, duo_watch watch,
                void* watcher) const {
    const Workspace work = lay_out(arena);
    const Tensor& in = program_.tensors[program_.input];
    for (size_t first = 0; first < count; first += chunk_) {
        Runner runner{{{*this, work, std::min(chunk_, count - first)}}};
        const auto written = [&](size_t operation, int32_t tensor) {
            if (!watch || tensor < 0) return;
            const duo_written w{operation, uint32_t(tensor), first, runner.images, runner.bits(tensor)};
            watch(watcher, &w);
        };
        runner.read_images(static_cast<const uint8_t*>(images) + first * in.image_bytes());
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
