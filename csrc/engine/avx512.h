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
#elif defined(__AVX512F__) && defined(__AVX512VPOPCNTDQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#define BINARYDUO_AVX512 1
#if defined(__AVX512VBMI__) && defined(__GFNI__)
#define BINARYDUO_AVX512VBMI 1
#if defined(__AMX_TILE__) && defined(__AMX_INT8__)
#define BINARYDUO_AMX 1
#endif
#endif
#endif
