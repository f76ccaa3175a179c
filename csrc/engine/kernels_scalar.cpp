// The readable reference: plain C++, one bit count at a time. Every other instruction set must agree with it.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels.h"

namespace binaryduo {
namespace scalar {
#include "kernel_table.h"

struct Policy : Lanes8 {
    static constexpr const char* kName = "popcount";
    static constexpr size_t kPixels = 1, kStreamUnit = 1, kBlockBytes = 48, kBlocks = 4;

    static void prepare(const uint8_t* padded, size_t bytes, size_t, uint8_t* out) {
        std::memcpy(out, padded, bytes);
    }

    // scratch[k][blocks · 32]
    static void expand(const uint8_t* weights, size_t stride, size_t k, uint8_t* out, size_t blocks,
                       size_t b) {
        for (size_t i = 0; i < k; ++i) std::memcpy(out + (i * blocks + b) * 32, weights + i * stride, stride);
    }

    static void count(const uint8_t* stream, const uint8_t* weights, size_t k, size_t blocks,
                      uint16_t* counts, bool first) {
        if (first) std::memset(counts, 0, 32 * blocks * sizeof(uint16_t));
        for (size_t i = 0; i < k; ++i)
            for (size_t c = 0; c < 32 * blocks; ++c)
                counts[c] =
                    uint16_t(counts[c] + __builtin_popcount(stream[i] & weights[i * 32 * blocks + c]));
    }

    static uint32_t mask(const Floats8& y, const Floats8& t) {
        uint32_t mask = 0;
        for (int i = 0; i < 8; ++i) mask |= uint8_t(uint8_t(y[i] >= t[i]) << i);
        return mask;
    }

    static uint32_t mask32(const uint16_t* counts, int32_t ones, const int16_t* t) {
        uint32_t mask = 0;
        for (int i = 0; i < 32; ++i) mask |= uint32_t(2 * int32_t(counts[i]) - ones >= t[i]) << i;
        return mask;
    }
};

}  // namespace scalar

const Kernels* kernels_scalar() {
    return scalar::make_kernels<scalar::Policy, scalar::TiledBinaryConv<scalar::Policy>>("scalar");
}

}  // namespace binaryduo
