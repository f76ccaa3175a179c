// The readable reference: plain C++, the bits of eight bytes counted at a time. Every other instruction set
// must agree with it.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels.h"

namespace binaryduo {
namespace scalar {
#include "kernel_table.h"

struct Policy : Lanes8 {
    static constexpr const char* kName = "popcount";
    static constexpr size_t kPixels = 1, kStreamUnit = 1, kBlockBytes = 30, kBlocks = 4;
    static constexpr bool kOneEpilogue = true;

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
        for (size_t c = 0; c < 32 * blocks; c += 8) {
            uint64_t sum = 0;  // a byte for each of eight channels: at most 8 · kBlockBytes
            for (size_t i = 0; i < k; ++i) {
                uint64_t word;
                std::memcpy(&word, weights + i * 32 * blocks + c, 8);
                sum += ones_of_bytes(word & stream[i] * (kOnes / 0xff));
            }
            uint8_t bytes[8];
            std::memcpy(bytes, &sum, 8);
            for (size_t i = 0; i < 8; ++i) counts[c + i] = uint16_t((first ? 0 : counts[c + i]) + bytes[i]);
        }
    }

    // The ones of each byte, in that byte. Without an instruction for it a compiler calls a function for each
    // population count.
    static constexpr uint64_t kOnes = ~uint64_t(0);
    static uint64_t ones_of_bytes(uint64_t x) {
        x -= x >> 1 & kOnes / 3;                     // 0x5555…
        x = (x & kOnes / 5) + (x >> 2 & kOnes / 5);  // 0x3333…
        return (x + (x >> 4)) & kOnes / 17;          // 0x0f0f…
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
