// What an instruction set offers to the executor: one table of functions, filled by each kernels_*.cpp.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../common/instruction_sets.h"
#include "program.h"

namespace binaryduo {

// A convolution laid out for the kernels. Dense layers are 1 × 1 convolutions over a row of images.
struct ConvShape {
    size_t images, height, width;  // of the input
    size_t unit;                   // of one input pixel: bytes of bits, or floats
    size_t kh, kw, sh, sw, ph, pw;
    size_t out_height, out_width;
    size_t channels;

    size_t padded_height() const { return height + 2 * ph; }
    size_t padded_width() const { return width + 2 * pw; }
    size_t segment() const { return kw * unit; }  // input units that are contiguous under one kernel row
    size_t pixels() const { return images * out_height * out_width; }
};

// The last steps of a layer, for `channels` sums x of each pixel. With copies r, output channel
// i · channels + c is computed from sum c:
//     bits = (x >= threshold) ^ flip              integer thresholds, in all the forms that kernels read
//     y = scale · x + bias + residual;  relu;  floats = y;  bits = (y >= threshold) ^ flip
struct Epilogue {
    size_t channels, copies;
    size_t stride;  // floats of a pixel of out_float and residual: channels · copies, unless the sums of a
                    // group of channels go into a wider pixel
    const float* scale;
    const float* bias;
    const float* residual;
    const int32_t* threshold32;
    const int16_t* threshold16;
    const int32_t* half_threshold[2];  // ⌈t / 2⌉ and ⌈(t + 1) / 2⌉ of threshold32
    const float* threshold;
    const uint8_t* flip;
    bool relu;
    float* out_float;
    uint8_t* out_bits;
};

struct PoolShape {
    size_t height, width, unit;  // of the input; unit as in ConvShape
    size_t kh, kw, sh, sw, ph, pw;
    size_t out_height, out_width;
};

// Before a loop over an array of vectors of sums: unrolled early, they stay in registers; else GCC 12 stores
// them before and after the loop that adds to them.
#if defined(__OPTIMIZE_SIZE__)
#define BINARYDUO_UNROLL
#else
#define BINARYDUO_UNROLL _Pragma("GCC unroll 24")
#endif

// Bytes after a stream that must hold zeros: what lies there is read, as a table's number too.
constexpr size_t kStreamGuard = 64;

// Work is cut into numbered items; any thread may do any item. `scratch` is the thread's own.
struct Kernels {
    const char* name;

    // Binary convolution. The weights are laid out once, when the model is loaded; where weight_bytes is 0,
    // as they lie in the file. In a run, every padded input row is first prepared into `stream` and `counts`,
    // then come the items.
    const char* (*binary_kernel)(const ConvShape&);
    size_t (*weight_bytes)(const ConvShape&);
    void (*prepare_weights)(const ConvShape&, const uint8_t* weights, uint8_t* out);
    size_t (*stream_bytes)(const ConvShape&);
    void (*prepare_row)(const ConvShape&, const uint8_t* input, size_t row, uint8_t* stream, uint16_t* counts,
                        uint8_t* scratch);
    size_t (*binary_items)(const ConvShape&);
    void (*binary_item)(const ConvShape&, const uint8_t* stream, const uint16_t* counts,
                        const uint8_t* weights, const Epilogue&, size_t item, uint8_t* scratch);
    size_t (*scratch_bytes)(const ConvShape&);

    // Float convolution on a physically padded input.
    size_t (*float_items)(const ConvShape&);
    void (*float_item)(const ConvShape&, const float* padded, const float* weights, const Epilogue&,
                       size_t item, uint8_t* scratch);

    // Float weights on bits: see select_conv.h. On a physically padded input, whose copies have `copy`
    // channels each.
    size_t select_scratch;
    size_t (*select_items)(const ConvShape&);
    void (*select_item)(const ConvShape&, size_t copy, const uint8_t* padded, const float* weights,
                        const Epilogue&, size_t item, uint8_t* scratch);

    // Convolution of bytes with 8-bit weights, which are laid out when the model is loaded; on a physically
    // padded input with kStreamGuard bytes after it.
    size_t (*byte_weight_bytes)(const ConvShape&);
    void (*prepare_byte_weights)(const ConvShape&, const int8_t* weights, uint8_t* out);
    size_t (*byte_items)(const ConvShape&);
    void (*byte_item)(const ConvShape&, const uint8_t* padded, const uint8_t* weights, const Epilogue&,
                      size_t item);

    // Convolution in groups of few channels: see grouped_conv.h. One row of output pixels, the sums alone.
    void (*grouped_bits_row)(const ConvShape&, const uint8_t* spread, const int8_t* weights, size_t row,
                             float* sums);
    void (*grouped_floats_row)(const ConvShape&, const float* spread, const float* weights, size_t row,
                               float* sums);

    // One row of output pixels each.
    void (*max_pool_row)(const PoolShape&, const float* image, size_t row, float* out);
    void (*or_pool_row)(const PoolShape&, const uint8_t* image, const uint8_t* flip, size_t row,
                        uint8_t* out);
    void (*average_pool_row)(const PoolShape&, const float* image, size_t row, float* out);
    // `count` pixels from pixel `first` on.
    void (*pointwise)(const float* input, const Epilogue&, size_t first, size_t count);
};

const Kernels* kernels_scalar();
const Kernels* kernels_avx2();
const Kernels* kernels_avx512();
const Kernels* kernels_avx512vbmi();
const Kernels* kernels_amx();
const Kernels* kernels_neon();
const Kernels* kernels_wasm();

// The kernels that run now: see instruction_sets.h.
const Kernels& choose_kernels();
// Names of all sets that can run here, best first, separated by spaces.
const char* available_kernels();

}  // namespace binaryduo
