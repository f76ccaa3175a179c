// NEON: one byte of activations against 16 output channels in one AND, one byte-wise population count and one
// addition; bytes are widened after 31 of them, before they overflow.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>

namespace binaryduo {
namespace neon {
#include "kernel_table.h"

struct Policy : Lanes8 {
    static constexpr const char* kName = "cnt";
    static constexpr size_t kPixels = 1, kStreamUnit = 1, kBlockBytes = 30, kBlocks = 4;

    static void prepare(const uint8_t* padded, size_t bytes, size_t, uint8_t* out) {
        std::memcpy(out, padded, bytes);
    }

    // scratch[k][blocks · 32]
    static void expand(const uint8_t* weights, size_t stride, size_t k, uint8_t* out, size_t blocks,
                       size_t b) {
        for (size_t i = 0; i < k; ++i) std::memcpy(out + (i * blocks + b) * 32, weights + i * stride, stride);
    }

    template <size_t kBlocksHere>
    static void count_blocks(const uint8_t* stream, const uint8_t* weights, size_t k, uint16_t* counts,
                             bool first) {
        uint8x16_t sum[2 * kBlocksHere];
        for (uint8x16_t& s : sum) s = vdupq_n_u8(0);
        for (size_t i = 0; i < k; ++i) {
            const uint8x16_t a = vld1q_dup_u8(stream + i);
            for (size_t j = 0; j < 2 * kBlocksHere; ++j, weights += 16)
                sum[j] = vaddq_u8(sum[j], vcntq_u8(vandq_u8(a, vld1q_u8(weights))));
        }
        for (size_t j = 0; j < 2 * kBlocksHere; ++j, counts += 16) {
            const uint16x8_t low = first ? vdupq_n_u16(0) : vld1q_u16(counts);
            const uint16x8_t high = first ? vdupq_n_u16(0) : vld1q_u16(counts + 8);
            vst1q_u16(counts, vaddw_u8(low, vget_low_u8(sum[j])));
            vst1q_u16(counts + 8, vaddw_u8(high, vget_high_u8(sum[j])));
        }
    }

    static void count(const uint8_t* stream, const uint8_t* weights, size_t k, size_t blocks,
                      uint16_t* counts, bool first) {
        switch (blocks) {
            case 4:
                count_blocks<4>(stream, weights, k, counts, first);
                break;
            case 3:
                count_blocks<3>(stream, weights, k, counts, first);
                break;
            case 2:
                count_blocks<2>(stream, weights, k, counts, first);
                break;
            default:
                count_blocks<1>(stream, weights, k, counts, first);
        }
    }

    static uint32_t mask(const Floats8& values, const Floats8& thresholds) {
        const float *y = reinterpret_cast<const float*>(&values),
                    *t = reinterpret_cast<const float*>(&thresholds);
        static const uint32_t kBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
        const uint32x4_t low = vandq_u32(vcgeq_f32(vld1q_f32(y), vld1q_f32(t)), vld1q_u32(kBits));
        const uint32x4_t high =
            vandq_u32(vcgeq_f32(vld1q_f32(y + 4), vld1q_f32(t + 4)), vld1q_u32(kBits + 4));
        return uint8_t(vaddvq_u32(vorrq_u32(low, high)));
    }

    static uint32_t mask32(const uint16_t* counts, int32_t ones, const int16_t* t) {
        static const uint16_t kBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
        const int16x8_t shift = vdupq_n_s16(int16_t(ones));
        uint32_t mask = 0;
        for (int i = 0; i < 4; ++i) {
            const int16x8_t n = vreinterpretq_s16_u16(vld1q_u16(counts + 8 * i));
            const uint16x8_t over = vcgeq_s16(vsubq_s16(vaddq_s16(n, n), shift), vld1q_s16(t + 8 * i));
            mask |= uint32_t(vaddvq_u16(vandq_u16(over, vld1q_u16(kBits)))) << (8 * i);
        }
        return mask;
    }
};

}  // namespace neon

const Kernels* kernels_neon() {
    return neon::make_kernels<neon::Policy, neon::TiledBinaryConv<neon::Policy>>("neon");
}

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_neon() { return nullptr; }
}  // namespace binaryduo
#endif
