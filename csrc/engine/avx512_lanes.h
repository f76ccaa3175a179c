// What the AVX-512 sets share: sixteen floats at a time, masks for the last of them, and the last steps of
// binary layers on sixteen 32-bit sums. Included inside each set's own namespace.

typedef float Floats16 __attribute__((vector_size(64)));
typedef float Floats16Anywhere __attribute__((vector_size(64), aligned(4)));
typedef int32_t Ints16 __attribute__((vector_size(64)));
typedef uint16_t Shorts16 __attribute__((vector_size(32), aligned(2)));
typedef uint16_t Shorts32 __attribute__((vector_size(64)));
typedef uint8_t Bytes32 __attribute__((vector_size(32)));

// The first n of the numbers that a vector holds, at least one; the others are zero, or not touched.
#if defined(BINARYDUO_NO_MASKS)
inline Floats16 load_floats(const float* p, size_t n) {
    Floats16 v = {};
    std::memcpy(&v, p, n * sizeof(float));
    return v;
}
inline void store_floats(float* p, const Floats16& v, size_t n) { std::memcpy(p, &v, n * sizeof(float)); }
inline __m512i load_bytes(const uint8_t* p, size_t n) {
    uint8_t bytes[64] = {};
    std::memcpy(bytes, p, n);
    return _mm512_loadu_si512(bytes);
}
inline void store_shorts(uint16_t* p, const Shorts32& v, size_t n) {
    std::memcpy(p, &v, n * sizeof(uint16_t));
}
inline void store_bits(uint8_t* p, uint64_t bits, size_t n) { std::memcpy(p, &bits, n); }
#else
inline Floats16 load_floats(const float* p, size_t n) {
    return _mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p);
}
inline void store_floats(float* p, const Floats16& v, size_t n) {
    _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v);
}
inline __m512i load_bytes(const uint8_t* p, size_t n) {
    return _mm512_maskz_loadu_epi8(~__mmask64(0) >> (64 - n), p);
}
inline void store_shorts(uint16_t* p, const Shorts32& v, size_t n) {
    _mm512_mask_storeu_epi16(p, ~__mmask32(0) >> (32 - n), (__m512i)v);
}
inline void store_bits(uint8_t* p, uint64_t bits, size_t n) {
    _mm_mask_storeu_epi8(p, __mmask16((1u << n) - 1), _mm_cvtsi64_si128(int64_t(bits)));
}
#endif

struct Lanes16 {
    static constexpr size_t kLanes = 16, kFloatBlocks = 2, kFloatRows = 6;
    static constexpr bool kOneEpilogue = false;
    using Floats = Floats16;
    static Floats load(const float* p) { return *reinterpret_cast<const Floats16Anywhere*>(p); }
    static void store(float* p, Floats v) { *reinterpret_cast<Floats16Anywhere*>(p) = v; }
    static Floats load_some(const float* p, size_t n) { return load_floats(p, n); }
    static void store_some(float* p, const Floats& v, size_t n) { store_floats(p, v, n); }
    static Floats from_counts(const uint16_t* counts, int32_t ones) {
        const Ints16 n = __builtin_convertvector(*reinterpret_cast<const Shorts16*>(counts), Ints16);
        return __builtin_convertvector(2 * n - ones, Floats16);
    }
    static uint32_t mask(const Floats& y, const Floats& t) {
        return uint32_t(_mm512_cmp_ps_mask(_mm512_loadu_ps(&y), _mm512_loadu_ps(&t), _CMP_GE_OQ));
    }
};

// Bytes times 8-bit weights: four products of each of 16 channels in one instruction. GCC 12 copies every sum
// before it adds to it through the intrinsic, which halves the speed.
struct ByteSteps16 {
    static constexpr size_t kStep = 4, kPixels = 4, kBlocks = 4;
    using Weight = int8_t;
    using Input = __m512i;
    using Weights = __m512i;
    using Sums = __m512i;
    static Input input(const uint8_t* p) {
        int32_t word;
        std::memcpy(&word, p, 4);
        return _mm512_set1_epi32(word);
    }
    static Weights weights(const Weight* p) { return _mm512_load_si512(p); }
    static Sums add(Sums sums, Input x, Weights w) {
#if defined(BINARYDUO_SIMDE)
        return _mm512_dpbusd_epi32(sums, x, w);
#else
        asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(x), "v"(w));
        return sums;
#endif
    }
    static void to_floats(Sums sums, float* out) {
        Ints16 integers;
        std::memcpy(&integers, &sums, sizeof sums);
        Lanes16::store(out, __builtin_convertvector(integers, Floats16));
    }
};

// The last steps for `pixels` neighbours from `pixel` on and kBlocks blocks of 16 channels from `first` on,
// of which `channels` are there. Their sums are 2 · half − odd, where half = count − ⌊ones / 2⌋ and odd =
// ones % 2. The integer threshold's decision, 2 · half − odd >= t, is half >= ⌈(t + odd) / 2⌉: one comparison
// with a constant. `halves` are aligned, [pixels][16 · kBlocks].
template <size_t kBlocks>
__attribute__((noinline)) void finish_halves(const Epilogue& e, int32_t* halves, const int32_t* ones,
                                             size_t pixels, size_t pixel, size_t first, size_t channels) {
    constexpr size_t kChannels = 16 * kBlocks;
    if (!e.threshold32) {
        float* sums = reinterpret_cast<float*>(halves);
        for (size_t p = 0; p < pixels; ++p)
            for (size_t b = 0; b < kBlocks; ++b) {
                Ints16 n;
                std::memcpy(&n, halves + p * kChannels + 16 * b, sizeof n);
                Lanes16::store(sums + p * kChannels + 16 * b,
                               __builtin_convertvector(n + n - (ones[p] & 1), Floats16));
            }
        return binaryduo::avx512::finish_sums(e, sums, kChannels, pixels, pixel, first, channels);
    }
    const size_t copy_bytes = (e.channels + 7) / 8, pixel_bytes = e.copies * copy_bytes,
                 bytes = (channels + 7) / 8;
    for (size_t copy = 0, copies = e.copies; copy < copies; ++copy) {
        const int32_t* thresholds[2];
        for (size_t odd : {0, 1}) thresholds[odd] = e.half_threshold[odd] + copy * e.channels + first;
        const size_t at = copy * copy_bytes + first / 8;
        uint64_t turned = 0;
        if (e.flip) std::memcpy(&turned, e.flip + at, bytes);
        uint8_t* out = e.out_bits + pixel * pixel_bytes + at;
        for (size_t p = 0; p < pixels; ++p, out += pixel_bytes) {
            const int32_t *half = halves + p * kChannels, *threshold = thresholds[ones[p] & 1];
            uint64_t mask = turned;
            for (size_t b = 0; b < kBlocks; ++b)
                mask ^= uint64_t(_mm512_cmpge_epi32_mask(_mm512_load_si512(half + 16 * b),
                                                         _mm512_loadu_si512(threshold + 16 * b)))
                        << 16 * b;
            if (channels == kChannels)
                std::memcpy(out, &mask, kChannels / 8);
            else
                store_bits(out, mask & ((uint64_t(1) << channels) - 1), bytes);
        }
    }
}
