// Vectors of eight floats, buffers and threads for the kernels that training uses. Included inside the
// namespace of each instruction set, behind the standard headers that it needs: <algorithm>, <cstdlib>,
// <cstring>, <memory>, <thread> and <vector>.

typedef float v8 __attribute__((vector_size(32)));
typedef float v8u __attribute__((vector_size(32), aligned(4)));

inline long up(long n, long to) { return (n + to - 1) / to * to; }

inline v8 load(const float* p) { return *reinterpret_cast<const v8u*>(p); }
inline void store(float* p, v8 v) { *reinterpret_cast<v8u*>(p) = v; }

// Eight floats of which at least the first is in the array that ends at `end`. A pixel's last channels may be
// followed by those of the next pixel: these lanes are never used.
inline v8 load_before(const float* p, const float* end) {
    if (p + 8 <= end) return load(p);
    v8 v = {};
    std::memcpy(&v, p, (end - p) * sizeof(float));
    return v;
}

// The first n of eight floats, without touching what follows them.
inline void store_some(float* p, v8 v, long n) {
    if (n >= 8) return store(p, v);
    const float* from = reinterpret_cast<const float*>(&v);
    if (n & 4) std::memcpy(p, from, 16), p += 4, from += 4;
    if (n & 2) std::memcpy(p, from, 8), p += 2, from += 2;
    if (n & 1) *p = *from;
}

struct FreeAligned {
    void operator()(float* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float[], FreeAligned>;
Buffer buffer(long floats) {
    float* p = static_cast<float*>(std::aligned_alloc(64, up(floats * sizeof(float), 64)));
    std::memset(p, 0, floats * sizeof(float));
    return Buffer(p);
}

template <typename Work>
void parallel(int threads, Work work) {
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
    for (auto& other : others) other.join();
}
