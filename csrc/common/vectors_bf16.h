// Eight numbers that are bfloat16 in memory and floats in registers. Included after vectors.h, in the same
// way. Stored rounded to the nearest, ties to even; not for NaN.

typedef uint32_t Words8 __attribute__((vector_size(32)));

inline Floats8 load(const Bf16* p) {
    return (Floats8)(__builtin_convertvector(*reinterpret_cast<const Shorts8*>(p), Words8) << 16);
}
inline void store(Bf16* p, Floats8 v) {
    const Words8 bits = (Words8)v;
    *reinterpret_cast<Shorts8*>(p) =
        __builtin_convertvector((bits + 0x7fff + (bits >> 16 & 1)) >> 16, Shorts8);
}

inline Floats8 load_before(const Bf16* p, const Bf16* end) {
    if (p + 8 <= end) return load(p);
    Bf16 some[8] = {};
    std::memcpy(some, p, (end - p) * sizeof(Bf16));
    return load(some);
}
inline void store_some(Bf16* p, Floats8 v, size_t n) {
    if (n >= 8) return store(p, v);
    Bf16 some[8];
    store(some, v);
    std::memcpy(p, some, n * sizeof(Bf16));
}
