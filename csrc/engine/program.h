// The program of a packed model: its tensors and operations, read from the tables of a .duo file.
// Everything is checked here, once, before any of it is used: see docs/format.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace binaryduo {

enum class Kind : uint32_t { kFloat = 0, kBits = 1, kBytes = 2 };

// One image's activation. All kinds are stored pixel by pixel, channels innermost (H × W × C).
// Bits: each copy's channels start on a byte, channel c of a copy is bit c % 8 of byte c / 8.
struct Tensor {
    Kind kind;
    uint32_t copies, channels, height, width;

    size_t pixels() const { return size_t(height) * width; }
    uint32_t channels_of_copy() const { return channels / copies; }
    size_t copy_bytes() const { return (channels_of_copy() + 7) / 8; }
    size_t pixel_bytes() const {
        return kind == Kind::kBits ? copies * copy_bytes() : channels * (kind == Kind::kBytes ? 1 : 4);
    }
    size_t image_bytes() const { return pixels() * pixel_bytes(); }
};

enum class Code : uint32_t {
    kBinaryConv = 1,  // bits × one-bit weights -> integers -> epilogue
    kFloatConv = 2,   // floats or bits × float weights -> floats -> epilogue
    kMaxPool = 3,     // floats; on bits it is OR, then XOR with the flip mask
    kAveragePool = 4,
    kPointwise = 5,    // floats -> epilogue
    kMeanCopies = 6,   // the mean over copies of the channels: blocked ones, or those that `weights` lists
    kPadChannels = 7,  // channels appended, filled with zero
    kUnpack = 8,       // bits -> floats 0 and 1
    kConcat = 9,       // channels of two float tensors, one after the other
    kCurve = 10,       // a function of each value
    kJoin = 11,        // two float tensors, value by value
    kResample = 12,    // other rows and columns
    kNormalise = 13,   // mean 0 and variance 1 in each image
    kLookup = 14,      // bytes -> floats, by a table for each channel
};

// The functions of kCurve and kJoin, and what parameters they have in `weights`.
enum class Curve : uint32_t {
    kPrelu = 1,  // a slope for each channel
    kClamp = 2,  // the lowest and the highest value
    kSigmoid = 3,
    kTanh = 4,
    kHardSigmoid = 5,
    kHardSwish = 6,
    kSilu = 7,
    kGelu = 8,
    kElu = 9,  // its alpha
    kSoftplus = 10,
    kMish = 11,
    kAbs = 12,
    kExp = 13,
    kSquare = 14,
};
enum class Join : uint32_t { kProduct = 1, kSum = 2, kMaximum = 3, kMinimum = 4, kQuotient = 5 };

enum Flags : uint32_t {
    kRelu = 1,
    kHalfWeights = 2,
    kIntegerThreshold = 4,
    kBitWeights = 8,
    kEveryValue = 16,     // kNormalise: scales and biases are one for each value, and not for each channel
    kByteWeights = 32,    // kFloatConv: weights are whole numbers from -128 to 127
    kSharedWeights = 64,  // kBinaryConv: the file has the weights of one copy of the input, and all use them
};

// What happens to a convolution's sums before they are stored, channel by channel (see epilogue.h).
// Null where a step is absent.
struct Op {
    Code code;
    uint32_t flags;
    int32_t input, residual, out_float, out_bits;  // tensor numbers, -1 where absent
    uint32_t kh, kw, sh, sw, ph, pw;
    uint32_t copies, in_channels_of_copy;
    uint32_t channels;  // of the sums, before copies
    uint32_t function;  // of kCurve and kJoin
    uint32_t groups;    // of channels: of a convolution (1: it is plain), of kNormalise
    const uint8_t* weights;
    const float* scale;
    const float* bias;
    const void* threshold;  // int32_t where kIntegerThreshold, else float
    const uint8_t* flip;
    std::vector<float> float_weights;  // kHalfWeights or kBitWeights, widened at load
    std::vector<uint32_t> listed;  // the channels that kMeanCopies averages (empty: blocked ones); the rows
                                   // and columns of kResample
    std::vector<int16_t> threshold16;  // kIntegerThreshold, for 16-bit comparisons; empty if K is too large
    std::vector<int32_t> half_threshold[2];  // kIntegerThreshold: ⌈t / 2⌉ and ⌈(t + 1) / 2⌉
    std::vector<float> float_threshold;      // kIntegerThreshold in groups: their sums are stored as floats

    bool relu() const { return flags & kRelu; }
    bool byte_weights() const { return flags & kByteWeights; }
    bool shared_weights() const { return flags & kSharedWeights; }
    bool integer_threshold() const { return flags & kIntegerThreshold; }
    const float* fweights() const {
        return float_weights.empty() ? reinterpret_cast<const float*>(weights) : float_weights.data();
    }
};

struct Program {
    std::vector<Tensor> tensors;
    std::vector<Op> ops;
    int32_t input;  // a tensor's number
    std::vector<int32_t> outputs;
    std::vector<size_t> offsets;  // of each tensor in the arena, for one image
    std::vector<int32_t> last_use;
    size_t arena_bytes;  // for one image, all tensors alive as long as they are needed
};

constexpr size_t kTensorRecord = 32, kOpRecord = 128, kGuard = 64;
// Where a pointer has 32 bits, as in a browser, less can be addressed.
constexpr uint64_t kLargestTensor = uint64_t(1) << (sizeof(size_t) > 4 ? 30 : 28),
                   kLargestProgram = 4 * kLargestTensor;
constexpr size_t kMostOutputs = 64;
constexpr uint32_t kMostPlanes = 32;  // copies of an input that share weights: as much as a bit made a float

// Reads and checks both tables. Throws std::invalid_argument with one sentence on anything that is not as
// docs/format.md says. `data` stays where it is: the program points into it.
Program read_program(const uint8_t* tensors, size_t tensors_bytes, const uint8_t* ops, size_t ops_bytes,
                     const uint8_t* data, size_t data_bytes);

// Gives each tensor a place in the arena that no tensor alive at the same time shares: first fit, in order.
void place_tensors(Program& program);

}  // namespace binaryduo
