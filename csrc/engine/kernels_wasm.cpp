// WebAssembly's 128-bit SIMD: the constant tables of AVX2 (kernels_avx2.cpp says how they count), 16 channels
// at a time.
//
// `i8x16.swizzle` is the lookup. WebAssembly wants 0 for an index above 15, which `pshufb` does not give, so
// x86 browsers add one instruction to each lookup; relaxed SIMD would save it, but its multiply-adds are
// fused on some machines and not on others, and a result would depend on who runs it. Plain SIMD has no fused
// multiply-add: the floats are those of the scalar reference, bit by bit, in every browser.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels.h"

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>

namespace binaryduo {
namespace wasm {
#include "kernel_table.h"
#include "pair_tables.h"

struct Policy : Lanes8 {
    static constexpr const char* kName = "swizzle";
    static constexpr size_t kPixels = 2, kStreamUnit = 4, kBlockBytes = 30, kBlocks = 2;
    static constexpr size_t kFloatRows = 3;  // 12 vectors of sums: x86 has 16 registers

    // Each byte becomes two 16-bit table offsets: (low nibble of this pixel, low nibble of its neighbour),
    // then the high nibbles.
    static void prepare(const uint8_t* padded, size_t bytes, size_t shift, uint8_t* out) {
        const v128_t low = wasm_u8x16_const_splat(0x0f), high = wasm_u8x16_const_splat(0xf0);
        size_t i = 0;
        for (; i + 16 <= bytes; i += 16) {
            const v128_t a = wasm_v128_load(padded + i), b = wasm_v128_load(padded + i + shift);
            const v128_t lows =
                wasm_v128_or(wasm_v128_and(a, low), wasm_v128_and(wasm_i16x8_shl(b, 4), high));
            const v128_t highs =
                wasm_v128_or(wasm_v128_and(wasm_u16x8_shr(a, 4), low), wasm_v128_and(b, high));
            const v128_t first =
                wasm_i8x16_shuffle(lows, highs, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            const v128_t second =
                wasm_i8x16_shuffle(lows, highs, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            const v128_t wide[4] = {wasm_u16x8_extend_low_u8x16(first), wasm_u16x8_extend_high_u8x16(first),
                                    wasm_u16x8_extend_low_u8x16(second),
                                    wasm_u16x8_extend_high_u8x16(second)};
            for (size_t j = 0; j < 4; ++j) wasm_v128_store(out + 4 * i + 16 * j, wasm_i16x8_shl(wide[j], 4));
        }
        for (; i < bytes; ++i) store_offsets(padded[i], padded[i + shift], out + 4 * i);
    }

    // scratch[group][blocks · 32]: a nibble in each byte; filled up with zeros to whole chunks of 3 groups.
    static void expand(const uint8_t* weights, size_t stride, size_t k, uint8_t* out, size_t blocks,
                       size_t b) {
        const v128_t low = wasm_u8x16_const_splat(0x0f);
        const size_t step = blocks * 32;
        out += b * 32;
        for (size_t i = 0; i < k; ++i, out += 2 * step)
            for (size_t half = 0; half < 32; half += 16) {
                const v128_t w = wasm_v128_load(weights + i * stride + half);
                wasm_v128_store(out + half, wasm_v128_and(w, low));
                wasm_v128_store(out + step + half, wasm_v128_and(wasm_u16x8_shr(w, 4), low));
            }
        for (size_t group = 2 * k; group % 3; ++group, out += step) std::memset(out, 0, 32);
    }

    static void add(uint16_t* counts, v128_t bytes, bool first) {
        v128_t low = wasm_u16x8_extend_low_u8x16(bytes), high = wasm_u16x8_extend_high_u8x16(bytes);
        if (!first) {
            low = wasm_i16x8_add(wasm_v128_load(counts), low);
            high = wasm_i16x8_add(wasm_v128_load(counts + 8), high);
        }
        wasm_v128_store(counts, low);
        wasm_v128_store(counts + 8, high);
    }

    template <size_t kVectors>
    static void count_vectors(const uint16_t* offsets, const uint8_t* weights, size_t chunks,
                              uint16_t* counts, bool first) {
        const v128_t low = wasm_u8x16_const_splat(0x0f);
        const uint8_t* tables = &kPairTables.row[0][0];
        v128_t sum[kVectors], high[kVectors];
        for (size_t v = 0; v < kVectors; ++v) sum[v] = high[v] = wasm_i64x2_const_splat(0);
        for (size_t chunk = 0; chunk < chunks; ++chunk, offsets += 3, weights += 3 * 16 * kVectors) {
            v128_t table[3];
            for (size_t g = 0; g < 3; ++g) table[g] = wasm_v128_load(tables + offsets[g]);
#pragma GCC unroll 4
            for (size_t v = 0; v < kVectors; ++v) {
                const uint8_t* w = weights + 16 * v;
                v128_t x = wasm_i8x16_swizzle(table[0], wasm_v128_load(w));
                x = wasm_i8x16_add(x, wasm_i8x16_swizzle(table[1], wasm_v128_load(w + 16 * kVectors)));
                x = wasm_i8x16_add(x, wasm_i8x16_swizzle(table[2], wasm_v128_load(w + 32 * kVectors)));
                sum[v] = wasm_i8x16_add(sum[v], x);
                high[v] = wasm_i8x16_add(high[v], wasm_v128_and(wasm_u16x8_shr(x, 4), low));
            }
        }
        const v128_t upper = wasm_u8x16_const_splat(0xf0);
        for (size_t v = 0; v < kVectors; ++v) {
            const v128_t shifted = wasm_v128_and(wasm_i16x8_shl(high[v], 4), upper);
            add(counts + 16 * v, wasm_i8x16_sub(sum[v], shifted), first);
            add(counts + 16 * (kVectors + v), high[v], first);
        }
    }

    static void count(const uint8_t* stream, const uint8_t* weights, size_t k, size_t blocks,
                      uint16_t* counts, bool first) {
        const uint16_t* offsets = reinterpret_cast<const uint16_t*>(stream);
        const size_t chunks = (2 * k + 2) / 3;
        if (blocks == 2)
            count_vectors<4>(offsets, weights, chunks, counts, first);
        else
            count_vectors<2>(offsets, weights, chunks, counts, first);
    }

    static uint32_t mask(const Floats8& values, const Floats8& thresholds) {
        const float *y = reinterpret_cast<const float*>(&values),
                    *t = reinterpret_cast<const float*>(&thresholds);
        return uint32_t(wasm_i32x4_bitmask(wasm_f32x4_ge(wasm_v128_load(y), wasm_v128_load(t))) |
                        wasm_i32x4_bitmask(wasm_f32x4_ge(wasm_v128_load(y + 4), wasm_v128_load(t + 4))) << 4);
    }

    static uint32_t mask32(const uint16_t* counts, int32_t ones, const int16_t* t) {
        const v128_t shift = wasm_i16x8_splat(int16_t(ones));
        v128_t reached[4];
        for (size_t i = 0; i < 4; ++i) {
            const v128_t n = wasm_v128_load(counts + 8 * i);
            reached[i] =
                wasm_i16x8_ge(wasm_i16x8_sub(wasm_i16x8_add(n, n), shift), wasm_v128_load(t + 8 * i));
        }
        return uint32_t(wasm_i8x16_bitmask(wasm_i8x16_narrow_i16x8(reached[0], reached[1]))) |
               uint32_t(wasm_i8x16_bitmask(wasm_i8x16_narrow_i16x8(reached[2], reached[3]))) << 16;
    }
};

}  // namespace wasm

const Kernels* kernels_wasm() {
    return wasm::make_kernels<wasm::Policy, wasm::TiledBinaryConv<wasm::Policy>>("wasm");
}

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_wasm() { return nullptr; }
}  // namespace binaryduo
#endif
