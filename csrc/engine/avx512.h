// The headers that the AVX-512 sets need, and whether the compiler, or SIMDe in a check, has their
// instructions.
#pragma once
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels.h"

#if defined(BINARYDUO_SIMDE)
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/gfni.h>
#define BINARYDUO_AVX512 1
#define BINARYDUO_AVX512VBMI 1
#define BINARYDUO_AMX 1       // see tiles.h
#define BINARYDUO_NO_MASKS 1  // SIMDe lacks masked loads and stores
#elif defined(__AVX512F__) && defined(__AVX512VPOPCNTDQ__) && defined(__AVX512BW__) && \
    defined(__AVX512VL__) && defined(__AVX512VNNI__)
#include <immintrin.h>
#define BINARYDUO_AVX512 1
#if defined(__AVX512VBMI__) && defined(__GFNI__)
#define BINARYDUO_AVX512VBMI 1
#if defined(__AMX_TILE__) && defined(__AMX_INT8__)
#define BINARYDUO_AMX 1
#endif
#endif
#endif

#if defined(BINARYDUO_AVX512)
#include <cpuid.h>

namespace binaryduo {

// Whether four 512-bit instructions start in a cycle, as on Zen 5: then more pixels share a load of weights.
// Where two do (Zen 4, Intel), more sums in registers were slower.
static inline bool has_wide_vectors() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kAmd = 0x68747541;  // "Auth" of AuthenticAMD, asked as in instruction_sets.cpp
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != kAmd || !__get_cpuid(1, &a, &b, &c, &d)) return false;
    return (a >> 8 & 15) + (a >> 20 & 255) >= 0x1a;
}

// The float steps of all AVX-512 sets: kernels_avx512.cpp. The sums may be read up to a multiple of 16.
namespace avx512 {
void finish_sums(const Epilogue& e, const float* sums, size_t apart, size_t pixels, size_t pixel,
                 size_t first, size_t count);
}

}  // namespace binaryduo
#endif
