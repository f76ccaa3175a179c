// Vectors of eight numbers, in the compiler's own vector extension. Included inside the namespace of each
// instruction set, after <cstdint> and <cstring>, so that the compiler builds it with that set's instructions
// and the linker never mixes them.

typedef float Floats8 __attribute__((vector_size(32)));
typedef float Floats8Anywhere __attribute__((vector_size(32), aligned(4)));  // for loads and stores
typedef int32_t Ints8 __attribute__((vector_size(32)));
typedef uint16_t Shorts8 __attribute__((vector_size(16), aligned(2)));

// What a kernel's policy inherits that works on eight floats at a time.
struct Lanes8 {
    static constexpr size_t kLanes = 8, kFloatBlocks = 1, kFloatRows = 6;
    static constexpr bool kOneEpilogue = false;
    using Floats = Floats8;
    static Floats load(const float* p) { return *reinterpret_cast<const Floats8Anywhere*>(p); }
    static void store(float* p, Floats v) { *reinterpret_cast<Floats8Anywhere*>(p) = v; }
    static Floats load_some(const float* p, size_t n) {
        Floats v = {};
        std::memcpy(&v, p, n * sizeof(float));
        return v;
    }
    static void store_some(float* p, Floats v, size_t n) { std::memcpy(p, &v, n * sizeof(float)); }
    // Σ a·w = 2 · count − ones
    static Floats from_counts(const uint16_t* counts, int32_t ones) {
        const Ints8 n = __builtin_convertvector(*reinterpret_cast<const Shorts8*>(counts), Ints8);
        return __builtin_convertvector(2 * n - ones, Floats8);
    }
};
