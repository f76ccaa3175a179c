// Reads the operations of a file and checks every number in them. For program.cpp alone.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>

#include "program.h"
#include "reading.h"

namespace binaryduo {
namespace {

constexpr uint64_t kAbsent = ~uint64_t(0);

// Where a block of `bytes` in the data section lies; null for the absent mark.
const uint8_t* block(uint64_t offset, uint64_t bytes, const uint8_t* data, size_t data_bytes,
                     const std::string& what) {
    if (offset == kAbsent) return nullptr;
    // kGuard bytes after every block may be read by a vector load; their content never matters.
    if (bytes > data_bytes || offset > data_bytes - bytes || data_bytes - bytes - offset < kGuard)
        refuse(what + " reaches past the end of the data section");
    if (offset % 4) refuse(what + " is not aligned to 4 bytes");
    return data + offset;
}

class OpReader {
  public:
    OpReader(Program& program, const uint8_t* data, size_t data_bytes, std::vector<bool>& defined)
        : program_(program), data_(data), data_bytes_(data_bytes), defined_(defined) {}

    void read_op(const uint8_t* r, const std::string& name) {
        name_ = name;
        Op op{};
        op.code = Code(read<uint32_t>(r));
        op.flags = read<uint32_t>(r + 4);
        op.input = read<int32_t>(r + 8);
        op.residual = read<int32_t>(r + 12);
        op.out_float = read<int32_t>(r + 16);
        op.out_bits = read<int32_t>(r + 20);
        op.kh = read<uint32_t>(r + 24);
        op.kw = read<uint32_t>(r + 28);
        op.sh = read<uint32_t>(r + 32);
        op.sw = read<uint32_t>(r + 36);
        op.ph = read<uint32_t>(r + 40);
        op.pw = read<uint32_t>(r + 44);
        op.copies = read<uint32_t>(r + 48);
        op.channels = read<uint32_t>(r + 52);
        op.function = read<uint32_t>(r + 56);
        op.groups = read<uint32_t>(r + 60);
        if (op.flags & ~uint32_t(kRelu | kHalfWeights | kIntegerThreshold | kBitWeights | kEveryValue |
                                 kByteWeights | kSharedWeights))
            refuse(name + " has unknown flags");
        if (((op.flags & kEveryValue) && op.code != Code::kNormalise) ||
            (op.shared_weights() && op.code != Code::kBinaryConv))
            refuse(name + " has flags that do not go together");
        const uint32_t small = op.flags & (kHalfWeights | kBitWeights | kByteWeights);
        if ((small & (kBitWeights | kByteWeights)) && (op.code != Code::kFloatConv || (small & (small - 1))))
            refuse(name + " has flags that do not go together");
        const bool weighted =
            op.code == Code::kBinaryConv || op.code == Code::kFloatConv || op.code == Code::kPointwise;
        for (int32_t t : {op.input, op.residual, op.out_float, op.out_bits})
            if (t < -1 || t >= int32_t(program_.tensors.size()))
                refuse(name + " names a tensor that does not exist");
        if (op.residual != -1 && !weighted && op.code != Code::kConcat && op.code != Code::kJoin)
            refuse(name + " has a second input");
        if (op.out_bits != -1 && !weighted && op.code != Code::kMaxPool)
            refuse(name + " has a second output");
        const Tensor& in = source(op.input);
        op.in_channels_of_copy = in.channels_of_copy();
        if (in.kind == Kind::kBytes && op.code != Code::kLookup && !op.byte_weights())
            refuse(name + " reads bytes as if they were floats");
        switch (op.code) {
            case Code::kBinaryConv:
            case Code::kFloatConv:
            case Code::kPointwise:
                read_weighted(op, in, r);
                break;
            case Code::kMaxPool:
                read_pool(op, in, r);
                break;
            case Code::kAveragePool:
                read_pool(op, in, r);
                break;
            case Code::kMeanCopies: {
                const Tensor& out = target(op.out_float, Kind::kFloat);
                const bool listed = read<uint64_t>(r + 64) != kAbsent;
                if (in.kind != Kind::kFloat || op.copies < 1 || op.copies > 256 || !same_size(in, out) ||
                    (!listed && uint64_t(out.channels) * op.copies != in.channels))
                    refuse(name + " averages copies of another shape");
                read_index(op, in, out, r);
                break;
            }
            case Code::kPadChannels: {
                const Tensor& out = target(op.out_float, Kind::kFloat);
                if (in.kind != Kind::kFloat || out.channels < in.channels ||
                    op.channels > out.channels - in.channels || !same_size(in, out))
                    refuse(name + " pads to another shape");
                break;
            }
            case Code::kUnpack: {
                const Tensor& out = target(op.out_float, Kind::kFloat);
                if (in.kind != Kind::kBits || out.channels != in.channels || !same_size(in, out))
                    refuse(name + " unpacks to another shape");
                break;
            }
            case Code::kConcat: {
                const Tensor& other = source(op.residual);
                const Tensor& out = target(op.out_float, Kind::kFloat);
                if (in.kind != Kind::kFloat || other.kind != Kind::kFloat || !same_size(in, out) ||
                    !same_size(other, out) || uint64_t(in.channels) + other.channels != out.channels)
                    refuse(name + " concatenates other shapes");
                break;
            }
            case Code::kCurve:
                read_curve(op, in, r);
                break;
            case Code::kJoin:
                read_join(op, in);
                break;
            case Code::kResample:
                read_resample(op, in, r);
                break;
            case Code::kNormalise:
                read_normalise(op, in, r);
                break;
            case Code::kLookup: {
                const Tensor& out = target(op.out_float, Kind::kFloat);
                if (in.kind != Kind::kBytes || out.channels != in.channels || !same_size(in, out))
                    refuse(name + " writes another shape than it reads");
                op.weights = find<uint8_t>(r, 64, in.channels * uint64_t(256) * sizeof(float), "table");
                if (!op.weights) refuse(name + " has no table");
                break;
            }
            default:
                refuse(name + " has an unknown code");
        }
        for (int32_t out : {op.out_float, op.out_bits})
            if (out >= 0) {
                if (defined_[out]) refuse(name + " writes a tensor that is written already");
                defined_[out] = true;
            }
        program_.ops.push_back(std::move(op));
    }

  private:
    const Tensor& source(int32_t i) {
        if (i < 0 || size_t(i) >= program_.tensors.size() || !defined_[i])
            refuse(name_ + " reads a tensor that is not there yet");
        return program_.tensors[i];
    }
    const Tensor& target(int32_t i, Kind kind) {
        if (i < 0 || size_t(i) >= program_.tensors.size())
            refuse(name_ + " writes a tensor that does not exist");
        if (program_.tensors[i].kind != kind) refuse(name_ + " writes a tensor of another kind");
        return program_.tensors[i];
    }
    static bool same_size(const Tensor& a, const Tensor& b) {
        return a.height == b.height && a.width == b.width;
    }
    template <typename T>
    const T* find(const uint8_t* r, int at, uint64_t count, const char* what) {
        return reinterpret_cast<const T*>(
            block(read<uint64_t>(r + at), count * sizeof(T), data_, data_bytes_, name_ + "'s " + what));
    }

    void check_window(const Op& op, const Tensor& in, uint32_t height, uint32_t width) {
        for (uint32_t v : {op.kh, op.kw, op.sh, op.sw})
            if (v < 1 || v > 4096) refuse(name_ + " has a kernel or stride out of range");
        if (op.ph >= op.kh || op.pw >= op.kw) refuse(name_ + " is padded by a whole kernel or more");
        const uint64_t h = uint64_t(in.height) + 2 * op.ph, w = uint64_t(in.width) + 2 * op.pw;
        if (h < op.kh || w < op.kw || (h - op.kh) / op.sh + 1 != height || (w - op.kw) / op.sw + 1 != width)
            refuse(name_ + "'s output has another size than its window gives");
    }

    void read_pool(Op& op, const Tensor& in, const uint8_t* r) {
        if (in.kind == Kind::kBits) {
            const Tensor& out = target(op.out_bits, Kind::kBits);
            if (out.channels != in.channels || out.copies != in.copies || op.out_float != -1)
                refuse(name_ + " pools to another shape");
            check_window(op, in, out.height, out.width);
            op.flip = find<uint8_t>(r, 96, in.pixel_bytes(), "flip mask");
            if (op.code != Code::kMaxPool) refuse(name_ + " averages bits");
        } else {
            const Tensor& out = target(op.out_float, Kind::kFloat);
            if (out.channels != in.channels || op.out_bits != -1) refuse(name_ + " pools to another shape");
            check_window(op, in, out.height, out.width);
        }
    }

    // The channels that a mean over copies reads, where they are not blocked.
    void read_index(Op& op, const Tensor& in, const Tensor& out, const uint8_t* r) {
        const uint64_t count = uint64_t(op.copies) * out.channels;
        const uint8_t* list = find<uint8_t>(r, 64, count * sizeof(uint32_t), "list of channels");
        if (!list) return;
        copy_list(op, list, count);
        for (uint32_t channel : op.listed)
            if (channel >= in.channels) refuse(name_ + " averages channels that its input does not have");
    }

    // A copy: the file is mapped, and whoever changes it later must not lead a run out of a tensor.
    void copy_list(Op& op, const uint8_t* list, uint64_t count) {
        keep_again(count * sizeof(uint32_t), "list");
        op.listed.resize(count);
        std::memcpy(op.listed.data(), list, count * sizeof(uint32_t));
    }

    // A float tensor as large as the input, which the operations on single values write.
    void check_values(const Op& op, const Tensor& in) {
        const Tensor& out = target(op.out_float, Kind::kFloat);
        if (in.kind != Kind::kFloat || out.channels != in.channels || !same_size(in, out))
            refuse(name_ + " writes another shape than it reads");
    }

    void read_curve(Op& op, const Tensor& in, const uint8_t* r) {
        check_values(op, in);
        if (op.function < uint32_t(Curve::kPrelu) || op.function > uint32_t(Curve::kSquare))
            refuse(name_ + " has an unknown function");
        const Curve curve = Curve(op.function);
        const uint64_t count = curve == Curve::kPrelu   ? in.channels
                               : curve == Curve::kClamp ? 2
                               : curve == Curve::kElu   ? 1
                                                        : 0;
        op.weights = find<uint8_t>(r, 64, count * sizeof(float), "parameters");
        if (count && !op.weights) refuse(name_ + " has no parameters");
    }

    void read_join(Op& op, const Tensor& in) {
        check_values(op, in);
        if (op.function < uint32_t(Join::kProduct) || op.function > uint32_t(Join::kQuotient))
            refuse(name_ + " has an unknown function");
        const Tensor& other = source(op.residual);
        if (other.kind != Kind::kFloat || (other.channels != in.channels && other.channels != 1) ||
            (other.pixels() != 1 && !same_size(other, in)))
            refuse(name_ + " joins tensors of other shapes");
    }

    void read_resample(Op& op, const Tensor& in, const uint8_t* r) {
        const Tensor& out = target(op.out_float, Kind::kFloat);
        if (in.kind != Kind::kFloat || out.channels != in.channels)
            refuse(name_ + " writes another shape than it reads");
        const uint64_t rows = 2 * uint64_t(out.height), count = rows + 2 * uint64_t(out.width);
        const uint8_t* list = find<uint8_t>(r, 64, count * sizeof(uint32_t), "rows and columns");
        op.scale = find<float>(r, 72, count, "shares");
        if (!list || !op.scale) refuse(name_ + " has no rows and columns");
        copy_list(op, list, count);
        for (uint64_t i = 0; i < count; ++i)
            if (op.listed[i] >= (i < rows ? in.height : in.width))
                refuse(name_ + " takes pixels that its input does not have");
    }

    void read_normalise(Op& op, const Tensor& in, const uint8_t* r) {
        check_values(op, in);
        if (op.groups < 1 || in.channels % op.groups)
            refuse(name_ + "'s channels are not a multiple of its groups");
        const uint64_t count = op.flags & kEveryValue ? in.pixels() * in.channels : in.channels;
        op.weights = find<uint8_t>(r, 64, sizeof(float), "epsilon");
        if (!op.weights) refuse(name_ + " has no epsilon");
        op.scale = find<float>(r, 72, count, "scales");
        op.bias = find<float>(r, 80, count, "biases");
    }

    // What is kept in another form too comes from different bytes of the file, all of it together, so that a
    // small file stays small in memory.
    void keep_again(uint64_t bytes, const char* what) {
        kept_ += bytes;
        if (kept_ > data_bytes_) refuse(name_ + " shares its " + what + " with another operation");
    }

    // Weights of 1, 8 or 16 bits of a float convolution, as the floats that its kernel reads.
    void widen_weights(Op& op, uint64_t count) {
        if (count > SIZE_MAX / 8) refuse(name_ + " has more weights than this machine can address");
        op.float_weights.resize(count + kGuard / sizeof(float));
        for (size_t i = 0; i < count; ++i)
            op.float_weights[i] = op.flags & kHalfWeights   ? widen_half(read<uint16_t>(op.weights + 2 * i))
                                  : op.flags & kByteWeights ? float(int8_t(op.weights[i]))
                                  : op.weights[i / 8] >> i % 8 & 1 ? 1.0f
                                                                   : -1.0f;
    }

    // The weights of a convolution, all its groups after one another, and how many inputs a sum has.
    uint64_t read_weights(Op& op, const Tensor& in, const uint8_t* r) {
        const bool binary = op.code == Code::kBinaryConv;
        if (binary && in.kind != Kind::kBits) refuse(name_ + " is binary but reads floats");
        op.groups = std::max(1u, op.groups);
        if (in.channels % op.groups || op.channels % op.groups)
            refuse(name_ + "'s channels are not a multiple of its groups");
        const uint64_t of_group = in.channels / op.groups;
        uint64_t unit = in.kind == Kind::kBytes ? in.channels + 1 : of_group;
        if (binary) unit = op.groups > 1 ? (of_group + 7) / 8 * 8 : in.pixel_bytes() * 8;
        const uint64_t inputs = uint64_t(op.kh) * op.kw * unit;
        const bool sums_are_integers = binary || (op.byte_weights() && in.kind != Kind::kFloat);
        if (sums_are_integers && inputs > 65535) refuse(name_ + " has more than 65535 inputs");
        if (inputs > (1u << 28)) refuse(name_ + " has too many inputs");
        if (op.groups > 1 && op.byte_weights() && in.kind != Kind::kFloat)
            refuse(name_ + " has groups of 8-bit weights on other inputs than floats");
        const uint64_t count = inputs * op.channels;
        uint64_t bytes = 4 * count;
        if (binary || (op.flags & kBitWeights)) bytes = (count + 7) / 8;
        if (op.shared_weights()) {
            if (op.groups > 1 || in.copies > kMostPlanes)
                refuse(name_ + " shares weights between groups, or between too many planes");
            bytes /= in.copies;  // of whole bytes each
        }
        if (op.flags & kHalfWeights) bytes = 2 * count;
        if (op.byte_weights()) bytes = count;
        // What lies around an image of bytes: a pixel, after the weights.
        op.weights = find<uint8_t>(r, 64, bytes + (in.kind == Kind::kBytes ? unit : 0), "weights");
        if (!op.weights) refuse(name_ + " has no weights");
        if (sums_are_integers || op.groups > 1 || (op.flags & (kHalfWeights | kBitWeights | kByteWeights)))
            keep_again(bytes, "weights");
        if (!sums_are_integers && (op.flags & (kHalfWeights | kBitWeights | kByteWeights)))
            widen_weights(op, count);
        return inputs;
    }

    void read_weighted(Op& op, const Tensor& in, const uint8_t* r) {
        if (op.channels < 1 || op.channels > (1u << 20) || op.copies < 1 || op.copies > 256)
            refuse(name_ + " has channels or copies out of range");
        const uint64_t channels = uint64_t(op.channels) * op.copies;
        if (op.out_float == -1 && op.out_bits == -1) refuse(name_ + " writes nothing");
        uint32_t height = in.height, width = in.width;
        for (int32_t out : {op.out_float, op.out_bits}) {
            if (out == -1) continue;
            const Tensor& t = target(out, out == op.out_float ? Kind::kFloat : Kind::kBits);
            if (t.channels != channels) refuse(name_ + " writes a tensor of another number of channels");
            height = t.height, width = t.width;
        }
        if (op.out_float != -1 && op.out_bits != -1 &&
            !same_size(program_.tensors[op.out_float], program_.tensors[op.out_bits]))
            refuse(name_ + " writes two tensors of different sizes");
        if (op.out_bits != -1 && program_.tensors[op.out_bits].copies != op.copies)
            refuse(name_ + " writes bits of another number of copies");
        uint64_t inputs = 1;
        if (op.code == Code::kPointwise) {
            if (in.kind != Kind::kFloat || in.channels != op.channels || in.height != height ||
                in.width != width)
                refuse(name_ + " reads another shape than it writes");
        } else {
            check_window(op, in, height, width);
            inputs = read_weights(op, in, r);
        }
        read_epilogue(op, r, channels, height, width, inputs);
    }

    void read_epilogue(Op& op, const uint8_t* r, uint64_t channels, uint32_t height, uint32_t width,
                       uint64_t inputs) {
        op.scale = find<float>(r, 72, channels, "scales");
        op.bias = find<float>(r, 80, channels, "biases");
        op.threshold = find<uint32_t>(r, 88, channels, "thresholds");
        op.flip = find<uint8_t>(r, 96, op.copies * ((op.channels + 7) / 8), "flip mask");
        if ((op.out_bits != -1) != (op.threshold != nullptr))
            refuse(name_ + " has thresholds without bits, or bits without thresholds");
        if (!op.scale != !op.bias) refuse(name_ + " has scales without biases, or biases without scales");
        if (op.residual != -1) {
            const Tensor& other = source(op.residual);
            if (other.kind != Kind::kFloat || other.channels != channels || other.height != height ||
                other.width != width)
                refuse(name_ + " adds a tensor of another shape");
        }
        if (!op.integer_threshold()) return;
        if (op.code != Code::kBinaryConv || op.out_float != -1 || op.residual != -1 || op.scale || op.relu())
            refuse(name_ + " compares integers but has a float step");
        keep_again(channels * sizeof(int32_t), "thresholds");
        if (op.groups > 1) {  // exact: sums are below 2^16, and larger thresholds stay larger
            const int32_t* t = static_cast<const int32_t*>(op.threshold);
            op.float_threshold.assign(t, t + channels);
            op.float_threshold.resize(channels + kGuard / sizeof(float));
            return;
        }
        for (int odd : {0, 1}) {
            for (uint64_t c = 0; c < channels; ++c)  // an arithmetic shift rounds down
                op.half_threshold[odd].push_back(
                    int32_t((int64_t(static_cast<const int32_t*>(op.threshold)[c]) + odd + 1) >> 1));
            op.half_threshold[odd].resize(channels + 64);  // a kernel may compare 64 at once
        }
        if (inputs > 32767) return;  // 2 · count − popcount would leave 16 bits: the 32-bit comparison serves
        for (uint64_t c = 0; c < channels; ++c) {
            const int32_t t = static_cast<const int32_t*>(op.threshold)[c];
            op.threshold16.push_back(int16_t(std::clamp<int32_t>(t, -32768, 32767)));
        }
        op.threshold16.resize(channels + kGuard / sizeof(int16_t));
    }

    Program& program_;
    const uint8_t* data_;
    size_t data_bytes_;
    std::vector<bool>& defined_;
    std::string name_;
    uint64_t kept_ = 0;  // bytes of the file that are in memory in another form too
};

}  // namespace
}  // namespace binaryduo
