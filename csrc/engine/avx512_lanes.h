// What the AVX-512 sets share: sixteen floats at a time, masks for the last of them, and the last steps of
// binary layers on sixteen 32-bit sums. Included inside each set's own namespace.

typedef float Floats16 __attribute__((vector_size(64)));
typedef float Floats16Anywhere __attribute__((vector_size(64), aligned(4)));
typedef int32_t Ints16 __attribute__((vector_size(64)));
typedef uint16_t Shorts16 __attribute__((vector_size(32), aligned(2)));

struct Lanes16 {
    static constexpr size_t kLanes = 16;
    using Floats = Floats16;
    static Floats load(const float* p) { return *reinterpret_cast<const Floats16Anywhere*>(p); }
    static void store(float* p, Floats v) { *reinterpret_cast<Floats16Anywhere*>(p) = v; }
    static Floats load_some(const float* p, size_t n) {
        Floats v;
        _mm512_storeu_ps(&v, _mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p));
        return v;
    }
    static void store_some(float* p, Floats v, size_t n) {
        _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), _mm512_loadu_ps(&v));
    }
    static Floats from_counts(const uint16_t* counts, int32_t ones) {
        const Ints16 n = __builtin_convertvector(*reinterpret_cast<const Shorts16*>(counts), Ints16);
        return __builtin_convertvector(2 * n - ones, Floats16);
    }
    static uint32_t mask(const Floats& y, const Floats& t) {
        return uint32_t(_mm512_cmp_ps_mask(_mm512_loadu_ps(&y), _mm512_loadu_ps(&t), _CMP_GE_OQ));
    }
};

// Sums as integers: 2 · half − odd, where half = count − ⌊ones / 2⌋ and odd = ones % 2.
struct FromHalves {
    const int32_t* halves;
    int32_t odd;
    Floats16 operator()(size_t c) const {
        const Ints16 n = *reinterpret_cast<const Ints16*>(halves + c);
        return __builtin_convertvector(n + n - odd, Floats16);
    }
};

// The last steps for one pixel and a group of at most 64 channels from `first` on, whose halves are aligned
// and may be read up to the next multiple of 16. The integer threshold's decision, 2 · half − odd >= t, is
// half >= ⌈(t + odd) / 2⌉: one comparison with a constant.
inline void finish_halves(const Epilogue& e, const int32_t* halves, int32_t odd, size_t pixel, size_t first,
                          size_t channels) {
    if (!e.threshold32) {
        finish_floats<Lanes16>(e, FromHalves{halves, odd}, pixel, first, channels);
        return;
    }
    const size_t copy_bytes = (e.channels + 7) / 8, bytes = (channels + 7) / 8;
    for (size_t copy = 0; copy < e.copies; ++copy) {
        const int32_t* threshold = e.half_threshold[odd] + copy * e.channels + first;
        const size_t at = copy * copy_bytes + first / 8;
        uint64_t mask = 0, turned = 0;
        for (size_t c = 0; c < channels; c += 16)
            mask |= uint64_t(_mm512_cmpge_epi32_mask(_mm512_load_si512(halves + c),
                                                     _mm512_loadu_si512(threshold + c)))
                    << c;
        uint8_t* out = e.out_bits + pixel * e.copies * copy_bytes + at;
        if (channels == 64) {
            if (e.flip) std::memcpy(&turned, e.flip + at, 8);
            mask ^= turned;
            std::memcpy(out, &mask, 8);
        } else {
            if (e.flip) std::memcpy(&turned, e.flip + at, bytes);
            mask = (mask ^ turned) & ((uint64_t(1) << channels) - 1);
            std::memcpy(out, &mask, bytes);
        }
    }
}
