// Vectors of LANES numbers, floats in registers and floats or bfloat16 in memory. Included inside the
// namespace of each instruction set, after <cstdint>, <cstring> and bf16.h and with LANES defined, so that
// the compiler builds it with that set's instructions and the linker never mixes them.

typedef float Floats __attribute__((vector_size(LANES * 4)));
typedef float FloatsAnywhere __attribute__((vector_size(LANES * 4), aligned(4)));  // for loads and stores
typedef int32_t Ints __attribute__((vector_size(LANES * 4)));
typedef uint32_t Words __attribute__((vector_size(LANES * 4)));
typedef uint16_t ShortsAnywhere __attribute__((vector_size(LANES * 2), aligned(2)));

inline long round_up(long n, long to) { return (n + to - 1) / to * to; }

inline Floats load(const float* p) { return *reinterpret_cast<const FloatsAnywhere*>(p); }
inline void store(float* p, const Floats& v) { *reinterpret_cast<FloatsAnywhere*>(p) = v; }

// bfloat16 is stored rounded to the nearest, ties to even; not for NaN.
inline Floats load(const Bf16* p) {
    return (Floats)(__builtin_convertvector(*reinterpret_cast<const ShortsAnywhere*>(p), Words) << 16);
}
inline void store(Bf16* p, const Floats& v) {
    const Words bits = (Words)v;
    *reinterpret_cast<ShortsAnywhere*>(p) =
        __builtin_convertvector((bits + 0x7fff + (bits >> 16 & 1)) >> 16, ShortsAnywhere);
}

// The first n numbers, at least one; the others are zero, or not touched.
template <typename T>
inline Floats load_some(const T* p, long n) {
    T some[LANES] = {};
    std::memcpy(some, p, n * sizeof(T));
    return load(some);
}
template <typename T>
inline void store_some(T* p, const Floats& v, long n) {
    if (n >= LANES) return store(p, v);
    alignas(32) T some[LANES];
    store(some, v);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (sizeof(T) == 4)
        _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v);
    else
        _mm256_mask_storeu_epi16(p, __mmask16((1u << n) - 1), *reinterpret_cast<const __m256i*>(some));
#else
    const T* from = some;
    for (long part = LANES / 2; part; part /= 2)
        if (n & part) {
            std::memcpy(p, from, part * sizeof(T));
            p += part;
            from += part;
        }
#endif
}

// LANES numbers of which at least the first is in the array that ends at `end`.
template <typename T>
inline Floats load_before(const T* p, const T* end) {
    return p + LANES <= end ? load(p) : load_some(p, end - p);
}
