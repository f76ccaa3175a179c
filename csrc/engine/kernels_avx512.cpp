// AVX-512 with VPOPCNTDQ: 4 bytes of activations against 16 output channels in one AND and one population
// count, 512 multiply-accumulates.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels.h"

#if defined(BINARYDUO_SIMDE)
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#define BINARYDUO_AVX512 1
#elif defined(__AVX512F__) && defined(__AVX512VPOPCNTDQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#define BINARYDUO_AVX512 1
#endif

#if defined(BINARYDUO_AVX512)

namespace binaryduo {
namespace avx512 {
#include "kernel_table.h"

struct Policy {
    static constexpr size_t kPixels = 1, kStreamUnit = 1, kBlockBytes = 48, kBlocks = 4;

    static void prepare(const uint8_t* padded, size_t bytes, size_t, uint8_t* out) {
        std::memcpy(out, padded, bytes);
    }

    // scratch[word][blocks][2 × 16 channels] of 32-bit words, each holding 4 bytes of one channel; the last
    // word is filled up with zeros. Byte rows k … k + 3 of 32 channels are transposed by two interleavings.
    static void expand(const uint8_t* weights, size_t stride, size_t k, uint8_t* out, size_t blocks,
                       size_t b) {
        for (size_t i = 0; i < k; i += 4) {
            alignas(16) uint8_t rows[4][32] = {};
            for (size_t j = 0; j < 4 && i + j < k; ++j)
                std::memcpy(rows[j], weights + (i + j) * stride, stride);
            uint8_t* to = out + (i / 4 * blocks + b) * 128;
            for (int half = 0; half < 2; ++half) {
                __m128i r[4];
                for (int j = 0; j < 4; ++j)
                    r[j] = _mm_load_si128(reinterpret_cast<const __m128i*>(rows[j] + 16 * half));
                const __m128i low01 = _mm_unpacklo_epi8(r[0], r[1]), high01 = _mm_unpackhi_epi8(r[0], r[1]);
                const __m128i low23 = _mm_unpacklo_epi8(r[2], r[3]), high23 = _mm_unpackhi_epi8(r[2], r[3]);
                __m128i* at = reinterpret_cast<__m128i*>(to + 64 * half);
                _mm_storeu_si128(at, _mm_unpacklo_epi16(low01, low23));
                _mm_storeu_si128(at + 1, _mm_unpackhi_epi16(low01, low23));
                _mm_storeu_si128(at + 2, _mm_unpacklo_epi16(high01, high23));
                _mm_storeu_si128(at + 3, _mm_unpackhi_epi16(high01, high23));
            }
        }
    }

    template <size_t kBlocksHere>
    static void count_blocks(const uint8_t* stream, const uint8_t* weights, size_t k, uint16_t* counts,
                             bool first) {
        __m512i sum[2 * kBlocksHere];
        for (__m512i& s : sum) s = _mm512_setzero_si512();
        for (size_t i = 0; i < k; i += 4) {
            int32_t word;  // bytes past k meet zero weights
            std::memcpy(&word, stream + i, 4);
            const __m512i a = _mm512_set1_epi32(word);
            for (size_t j = 0; j < 2 * kBlocksHere; ++j, weights += 64)
                sum[j] = _mm512_add_epi32(
                    sum[j], _mm512_popcnt_epi32(_mm512_and_si512(a, _mm512_loadu_si512(weights))));
        }
        for (size_t j = 0; j < 2 * kBlocksHere; ++j) {
            __m256i* at = reinterpret_cast<__m256i*>(counts + 16 * j);
            const __m256i before = first ? _mm256_setzero_si256() : _mm256_loadu_si256(at);
            _mm256_storeu_si256(at, _mm256_add_epi16(before, _mm512_cvtsepi32_epi16(sum[j])));
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

    static uint8_t mask8(const Floats8& y, const Floats8& t) {
        const __m256 a = _mm256_loadu_ps(reinterpret_cast<const float*>(&y));
        const __m256 b = _mm256_loadu_ps(reinterpret_cast<const float*>(&t));
        return uint8_t(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
    }

    static uint32_t mask32(const uint16_t* counts, int32_t ones, const int16_t* t) {
        const __m512i n = _mm512_loadu_si512(counts);
        const __m512i x = _mm512_sub_epi16(_mm512_add_epi16(n, n), _mm512_set1_epi16(int16_t(ones)));
        return uint32_t(_mm512_cmpge_epi16_mask(x, _mm512_loadu_si512(t)));
    }
};

}  // namespace avx512

const Kernels* kernels_avx512() { return avx512::make_kernels<avx512::Policy>("avx512", "vpopcntd"); }

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_avx512() { return nullptr; }
}  // namespace binaryduo
#endif
