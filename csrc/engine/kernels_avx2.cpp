// AVX2: a constant-table kernel.
//
// Four activations of one pixel select one of 16 constant tables T_a[w] = popcount(a & w), and `vpshufb`
// looks the 4-bit weight groups of 32 output channels up in it. Two neighbouring pixels share a byte: the
// table for the pair (a, a') holds T_a[w] + 16 · T_a'[w], so there are 256 tables of 16 bytes, 4 KiB, and one
// lookup does 4 × 32 × 2 = 256 multiply-accumulates.
//
// A nibble holds up to 15 and one group adds at most 4: three groups are added as they are (v), then
//     S += v (modulo 256),  H += v >> 4        (bytes)
// so that after 20 such chunks (240 inputs) Σ high = H and Σ low = S − 16 · H modulo 256, both below 256.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace binaryduo {
namespace avx2 {
#include "kernel_table.h"
#include "pair_tables.h"

struct Policy : Lanes8 {
    static constexpr const char* kName = "tables";
    static constexpr size_t kPixels = 2, kStreamUnit = 4, kBlockBytes = 30, kBlocks = 4;

    // Each byte becomes two 16-bit table offsets: (low nibble of this pixel, low nibble of its neighbour),
    // then the high nibbles.
    static void prepare(const uint8_t* padded, size_t bytes, size_t shift, uint8_t* out) {
        const __m128i low = _mm_set1_epi8(0x0f), high = _mm_set1_epi8(char(0xf0));
        size_t i = 0;
        for (; i + 16 <= bytes; i += 16) {
            const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(padded + i));
            const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(padded + i + shift));
            const __m128i lows =
                _mm_or_si128(_mm_and_si128(a, low), _mm_and_si128(_mm_slli_epi16(b, 4), high));
            const __m128i highs =
                _mm_or_si128(_mm_and_si128(_mm_srli_epi16(a, 4), low), _mm_and_si128(b, high));
            const __m256i first = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(lows, highs));
            const __m256i second = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(lows, highs));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 4 * i), _mm256_slli_epi16(first, 4));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 4 * i + 32), _mm256_slli_epi16(second, 4));
        }
        for (; i < bytes; ++i) store_offsets(padded[i], padded[i + shift], out + 4 * i);
    }

    // scratch[group][blocks · 32]: a nibble in each byte; filled up with zeros to whole chunks of 3 groups.
    static void expand(const uint8_t* weights, size_t stride, size_t k, uint8_t* out, size_t blocks,
                       size_t b) {
        const __m256i low = _mm256_set1_epi8(0x0f);
        const size_t step = blocks * 32;
        out += b * 32;
        for (size_t i = 0; i < k; ++i, out += 2 * step) {
            const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + i * stride));
            _mm256_store_si256(reinterpret_cast<__m256i*>(out), _mm256_and_si256(w, low));
            _mm256_store_si256(reinterpret_cast<__m256i*>(out + step),
                               _mm256_and_si256(_mm256_srli_epi16(w, 4), low));
        }
        for (size_t group = 2 * k; group % 3; ++group, out += step)
            _mm256_store_si256(reinterpret_cast<__m256i*>(out), _mm256_setzero_si256());
    }

    static void add(uint16_t* counts, __m256i bytes, bool first) {
        __m256i* at = reinterpret_cast<__m256i*>(counts);
        __m256i low = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(bytes));
        __m256i high = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(bytes, 1));
        if (!first) {
            low = _mm256_add_epi16(_mm256_load_si256(at), low);
            high = _mm256_add_epi16(_mm256_load_si256(at + 1), high);
        }
        _mm256_store_si256(at, low);
        _mm256_store_si256(at + 1, high);
    }

    template <size_t kBlocksHere>
    static void count_blocks(const uint16_t* offsets, const uint8_t* weights, size_t chunks, uint16_t* counts,
                             bool first) {
        const __m256i low = _mm256_set1_epi8(0x0f);
        const uint8_t* tables = &kPairTables.row[0][0];
        __m256i sum[kBlocksHere], high[kBlocksHere];
        for (size_t b = 0; b < kBlocksHere; ++b) sum[b] = high[b] = _mm256_setzero_si256();
#pragma GCC unroll 2
        for (size_t chunk = 0; chunk < chunks; ++chunk, offsets += 3, weights += 3 * 32 * kBlocksHere) {
            __m256i table[3];
            for (size_t g = 0; g < 3; ++g)
                table[g] = _mm256_broadcastsi128_si256(
                    _mm_load_si128(reinterpret_cast<const __m128i*>(tables + offsets[g])));
            for (size_t b = 0; b < kBlocksHere; ++b) {
                const __m256i* w = reinterpret_cast<const __m256i*>(weights) + b;
                __m256i v = _mm256_shuffle_epi8(table[0], _mm256_load_si256(w));
                v = _mm256_add_epi8(v, _mm256_shuffle_epi8(table[1], _mm256_load_si256(w + kBlocksHere)));
                v = _mm256_add_epi8(v, _mm256_shuffle_epi8(table[2], _mm256_load_si256(w + 2 * kBlocksHere)));
                sum[b] = _mm256_add_epi8(sum[b], v);
                high[b] = _mm256_add_epi8(high[b], _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
            }
        }
        const __m256i upper = _mm256_set1_epi8(char(0xf0));
        for (size_t b = 0; b < kBlocksHere; ++b) {
            const __m256i shifted = _mm256_and_si256(_mm256_slli_epi16(high[b], 4), upper);
            add(counts + 32 * b, _mm256_sub_epi8(sum[b], shifted), first);
            add(counts + 32 * (kBlocksHere + b), high[b], first);
        }
    }

    static void count(const uint8_t* stream, const uint8_t* weights, size_t k, size_t blocks,
                      uint16_t* counts, bool first) {
        const uint16_t* offsets = reinterpret_cast<const uint16_t*>(stream);
        const size_t chunks = (2 * k + 2) / 3;
        switch (blocks) {
            case 4:
                count_blocks<4>(offsets, weights, chunks, counts, first);
                break;
            case 3:
                count_blocks<3>(offsets, weights, chunks, counts, first);
                break;
            case 2:
                count_blocks<2>(offsets, weights, chunks, counts, first);
                break;
            default:
                count_blocks<1>(offsets, weights, chunks, counts, first);
        }
    }

    static uint32_t mask(Floats8 y, Floats8 t) {
        return uint8_t(_mm256_movemask_ps(_mm256_cmp_ps(__m256(y), __m256(t), _CMP_GE_OQ)));
    }

    static uint32_t mask32(const uint16_t* counts, int32_t ones, const int16_t* t) {
        const __m256i shift = _mm256_set1_epi16(int16_t(ones));
        __m256i below[2];
        for (int i = 0; i < 2; ++i) {
            const __m256i n = _mm256_load_si256(reinterpret_cast<const __m256i*>(counts) + i);
            const __m256i x = _mm256_sub_epi16(_mm256_add_epi16(n, n), shift);
            below[i] = _mm256_cmpgt_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(t) + i), x);
        }
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(below[0], below[1]), 0xd8);
        return ~uint32_t(_mm256_movemask_epi8(bytes));
    }
};

// Bytes times 8-bit weights, as 16-bit numbers (products of bytes would not fit): two of each of 16 channels.
struct ByteSteps {
    static constexpr size_t kStep = 2, kPixels = 2, kBlocks = 2;
    using Weight = int16_t;
    using Input = __m256i;
    struct Weights {
        __m256i part[2];
    };
    using Sums = Weights;
    static Input input(const uint8_t* p) { return _mm256_set1_epi32(p[0] | p[1] << 16); }
    static Weights weights(const Weight* p) {
        const __m256i* at = reinterpret_cast<const __m256i*>(p);
        return {{_mm256_load_si256(at), _mm256_load_si256(at + 1)}};
    }
    static Sums add(const Sums& sums, Input x, const Weights& w) {
        return {{_mm256_add_epi32(sums.part[0], _mm256_madd_epi16(x, w.part[0])),
                 _mm256_add_epi32(sums.part[1], _mm256_madd_epi16(x, w.part[1]))}};
    }
    static void to_floats(const Sums& sums, float* out) {
        for (size_t i = 0; i < 2; ++i) _mm256_storeu_ps(out + 8 * i, _mm256_cvtepi32_ps(sums.part[i]));
    }
};

}  // namespace avx2

const Kernels* kernels_avx2() {
    return avx2::make_kernels<avx2::Policy, avx2::TiledBinaryConv<avx2::Policy>, avx2::ByteSteps>("avx2");
}

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_avx2() { return nullptr; }
}  // namespace binaryduo
#endif
