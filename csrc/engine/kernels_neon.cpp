// NEON: two ways to count, chosen for each layer by the instructions that they take (README.md).
//
// `cnt`: one byte of activations against 16 output channels in one AND, one byte-wise population count and
// one addition; bytes are widened after 30 of them, before they overflow. `tbl`: the constant tables of AVX2
// (kernels_avx2.cpp says how they count), 16 channels at a time; the shift and the addition of H += v >> 4
// are one instruction here.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>

namespace binaryduo {
namespace neon {
#include "either_conv.h"
#include "kernel_table.h"
#include "pair_tables.h"

struct Neon : Lanes8 {
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

    // counts += bytes, or = where first; 16 of them.
    static void add(uint16_t* counts, uint8x16_t bytes, bool first) {
        const uint16x8_t low = first ? vdupq_n_u16(0) : vld1q_u16(counts);
        const uint16x8_t high = first ? vdupq_n_u16(0) : vld1q_u16(counts + 8);
        vst1q_u16(counts, vaddw_u8(low, vget_low_u8(bytes)));
        vst1q_u16(counts + 8, vaddw_high_u8(high, bytes));
    }
};

// Calls work with the number of blocks, 1 to 4, as a constant.
template <typename Work>
void with_blocks(size_t blocks, Work work) {
    switch (blocks) {
        case 4:
            return work(std::integral_constant<size_t, 4>{});
        case 3:
            return work(std::integral_constant<size_t, 3>{});
        case 2:
            return work(std::integral_constant<size_t, 2>{});
        default:
            return work(std::integral_constant<size_t, 1>{});
    }
}

struct Counting : Neon {
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

    static void count(const uint8_t* stream, const uint8_t* weights, size_t k, size_t blocks,
                      uint16_t* counts, bool first) {
        with_blocks(blocks, [&](auto here) {
            constexpr size_t kVectors = 2 * decltype(here)::value;
            uint8x16_t sum[kVectors];
            for (uint8x16_t& s : sum) s = vdupq_n_u8(0);
            const uint8_t* w = weights;
            for (size_t i = 0; i < k; ++i) {
                const uint8x16_t a = vld1q_dup_u8(stream + i);
                for (size_t v = 0; v < kVectors; ++v, w += 16)
                    sum[v] = vaddq_u8(sum[v], vcntq_u8(vandq_u8(a, vld1q_u8(w))));
            }
            for (size_t v = 0; v < kVectors; ++v) add(counts + 16 * v, sum[v], first);
        });
    }
};

struct LookingUp : Neon {
    static constexpr const char* kName = "tbl";
    static constexpr size_t kPixels = 2, kStreamUnit = 4, kBlockBytes = 30, kBlocks = 4;

    // Each byte becomes two 16-bit table offsets: (low nibble of this pixel, low nibble of its neighbour),
    // then the high nibbles.
    static void prepare(const uint8_t* padded, size_t bytes, size_t shift, uint8_t* out) {
        size_t i = 0;
        for (; i + 16 <= bytes; i += 16) {
            const uint8x16_t a = vld1q_u8(padded + i), b = vld1q_u8(padded + i + shift);
            const uint8x16_t lows = vsliq_n_u8(a, b, 4), highs = vsriq_n_u8(b, a, 4);
            const uint8x16x2_t both = vzipq_u8(lows, highs);
            for (size_t j = 0; j < 2; ++j) {
                vst1q_u8(out + 4 * i + 32 * j, vreinterpretq_u8_u16(vshll_n_u8(vget_low_u8(both.val[j]), 4)));
                vst1q_u8(out + 4 * i + 32 * j + 16,
                         vreinterpretq_u8_u16(vshll_n_u8(vget_high_u8(both.val[j]), 4)));
            }
        }
        for (; i < bytes; ++i) store_offsets(padded[i], padded[i + shift], out + 4 * i);
    }

    // scratch[group][blocks · 32]: a nibble in each byte; filled up with zeros to whole chunks of 3 groups.
    static void expand(const uint8_t* weights, size_t stride, size_t k, uint8_t* out, size_t blocks,
                       size_t b) {
        const uint8x16_t low = vdupq_n_u8(0x0f);
        const size_t step = blocks * 32;
        out += b * 32;
        for (size_t i = 0; i < k; ++i, out += 2 * step)
            for (size_t half = 0; half < 32; half += 16) {
                const uint8x16_t w = vld1q_u8(weights + i * stride + half);
                vst1q_u8(out + half, vandq_u8(w, low));
                vst1q_u8(out + step + half, vshrq_n_u8(w, 4));
            }
        for (size_t group = 2 * k; group % 3; ++group, out += step) std::memset(out, 0, 32);
    }

    static void count(const uint8_t* stream, const uint8_t* weights, size_t k, size_t blocks,
                      uint16_t* counts, bool first) {
        with_blocks(blocks, [&](auto here) {
            constexpr size_t kVectors = 2 * decltype(here)::value;
            const uint8_t* tables = &kPairTables.row[0][0];
            uint8x16_t sum[kVectors], high[kVectors];
            for (size_t v = 0; v < kVectors; ++v) sum[v] = high[v] = vdupq_n_u8(0);
            const uint8_t* w = weights;
            for (size_t group = 0; group < 2 * k; group += 3, w += 3 * 16 * kVectors) {
                uint16_t offset[3];
                std::memcpy(offset, stream + 2 * group, sizeof offset);
                const uint8x16_t table[3] = {vld1q_u8(tables + offset[0]), vld1q_u8(tables + offset[1]),
                                             vld1q_u8(tables + offset[2])};
                for (size_t v = 0; v < kVectors; ++v) {
                    uint8x16_t x = vqtbl1q_u8(table[0], vld1q_u8(w + 16 * v));
                    x = vaddq_u8(x, vqtbl1q_u8(table[1], vld1q_u8(w + 16 * (kVectors + v))));
                    x = vaddq_u8(x, vqtbl1q_u8(table[2], vld1q_u8(w + 16 * (2 * kVectors + v))));
                    sum[v] = vaddq_u8(sum[v], x);
                    high[v] = vsraq_n_u8(high[v], x, 4);
                }
            }
            for (size_t v = 0; v < kVectors; ++v) {
                add(counts + 16 * v, vsubq_u8(sum[v], vshlq_n_u8(high[v], 4)), first);
                add(counts + 16 * (kVectors + v), high[v], first);
            }
        });
    }
};

// Fewer instructions where a window has several pixels, unless too many rows end with a pixel that has no
// neighbour, for which a pair costs as much.
struct LookupConv : TiledBinaryConv<LookingUp> {
    static bool suits(const ConvShape& s) {
        return s.kh * s.kw > 1 && (s.out_width % 2 == 0 || s.out_width >= 7);
    }
};

}  // namespace neon

const Kernels* kernels_neon() {
    return neon::make_kernels<neon::Counting,
                              neon::EitherConv<neon::LookupConv, neon::TiledBinaryConv<neon::Counting>>>(
        "neon");
}

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_neon() { return nullptr; }
}  // namespace binaryduo
#endif
