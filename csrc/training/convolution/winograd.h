// 3×3 convolutions by Winograd's F(4×4, 3×3), a quarter of the multiplications; written once with vectors of
// LANES floats and compiled once for each instruction set. Include with WINOGRAD_NAMESPACE and LANES defined.
//
// An output tile of 4×4 pixels needs an input tile of 6×6. With the matrices of Lavin & Gray (2016),
//
//   U = Bᵀ d B   (6×6 of each input tile and channel)
//   V = G g Gᵀ   (6×6 of each filter)
//   M = Σ_ci U V (36 independent matrix products, tiles × Ci by Ci × Co)
//   Y = Aᵀ M A   (4×4 of each output tile)
//
// The gradients are the transposed steps: that of x is the same convolution with turned filters; that of the
// weights is dV = Σ_tiles U (A dY Aᵀ), dg = Gᵀ dV G.
#include <algorithm>
#include <cstdint>
#include <cstring>
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif
#include <memory>
#include <type_traits>
#include <vector>

#include "../../common/buffer.h"
#include "../../common/threads.h"
#include "convolution.h"

namespace binaryduo::convolution {
namespace WINOGRAD_NAMESPACE {
namespace {

// clang-format off: it needs the vectors
#include "../vectors.h"
#include "transforms.h"
// clang-format on

constexpr long TILES = 48;  // tiles that go through all steps together, so that they stay in the cache
constexpr long MOST_ROWS = 12;
constexpr long AHEAD = 2;  // tiles between the one that is worked on and the one that is asked for
// Between the 36 planes of numbers, so that a tile's 36 numbers are not all in one set of the cache.
constexpr long GAP = 16;

// --- where a tile lies ------------------------------------------------------------------------------------

struct Grid {
    long images, height, width, down, across;
    explicit Grid(const Shape& s)
        : images(s.images),
          height(s.height),
          width(s.width),
          down((s.height + 3) / 4),
          across((s.width + 3) / 4) {}
    long tiles() const { return images * down * across; }
};

struct Place {
    long image, top, left;
    Place(const Grid& g, long tile)
        : image(tile / (g.down * g.across)), top(tile / g.across % g.down * 4), left(tile % g.across * 4) {}
};

// The floats of one of the 36 planes, whose rows, one of each tile, have `stride`.
inline long plane_of(long stride) { return TILES * stride + GAP; }

// A square of pixels from (top, left) on, each by its address; those outside of the image are zeros.
template <long size, typename T>
struct Patch {
    const T* pixel[size * size];
    Patch(const T* image, const Grid& g, long channels, long top, long left, const T* nothing) {
        for (long i = 0; i < size; ++i)
            for (long j = 0; j < size; ++j) {
                const long row = top + i, column = left + j;
                const bool inside = row >= 0 && row < g.height && column >= 0 && column < g.width;
                pixel[size * i + j] = inside ? image + (row * g.width + column) * channels : nothing;
            }
    }
};

// Asks for the pixels, to read or to write, of the tile that is AHEAD of the present one: in each of its rows
// the 4 that no tile before it has. Images are larger than the caches, and the hardware does not foresee such
// short rows.
template <long size, typename T>
struct Ahead {
    const T* row[size];
    long channels;
    Ahead(const T* x, const Grid& g, long channels, long tile, long border) : channels(channels) {
        const Place at(g, std::min(tile + AHEAD, g.tiles() - 1));
        for (long i = 0; i < size; ++i) {
            const long y = std::min(std::max<long>(at.top + i - border, 0), g.height - 1);
            row[i] = x + ((at.image * g.height + y) * g.width + at.left) * channels;
        }
    }
    void ask(long c) const {  // for LANES channels; a cache line at a time
        if (c * sizeof(T) % 64) return;
        for (long i = 0; i < size; ++i)
            for (long j = 0; j < 4; ++j) __builtin_prefetch(row[i] + j * channels + c);
    }
};

// Calls step(t, c, pixel) for each tile, LANES channels at a time; pixel(k) loads pixel k of it. What a
// vector has beyond the last channel is of the next pixel and of no use; only after the last image there may
// be nothing to read.
template <long size, typename T, typename Step>
inline void patches(const T* x, const Grid& g, long channels, long first, long count, long border,
                    Step step) {
    const Buffer<T> nothing = zeros<T>(channels);
    for (long t = 0; t < count; ++t) {
        const Place at(g, first + t);
        const T* image = x + at.image * g.height * g.width * channels;
        const Patch<size, T> patch(image, g, channels, at.top - border, at.left - border, nothing.get());
        const Ahead<size, T> ahead(x, g, channels, first + t, border);
        const long careful = at.image + 1 == g.images ? channels % LANES : 0;
        for (long c = 0; c < channels; c += LANES) {
            ahead.ask(c);
            if (careful && c + LANES > channels)
                step(t, c, [&](long k) { return load_some(patch.pixel[k] + c, careful); });
            else
                step(t, c, [&](long k) { return load(patch.pixel[k] + c); });
        }
    }
}

// U[p][t][channel] of `count` tiles from `first` on.
template <typename T>
void transform_input(const T* x, const Grid& g, long channels, long first, long count, float* u,
                     long stride) {
    const long plane = plane_of(stride);
    patches<6>(x, g, channels, first, count, 1, [&](long t, long c, auto pixel) {
        Floats half[36];
        columns<6, 6, 6>(pixel, half, input_1d);
        rows<6, 6, 6>(half, input_1d,
                      [&](long p, const Floats& v) { store(u + p * plane + t * stride + c, v); });
    });
}

template <typename T>
void transform_output(const float* m, const Grid& g, long channels, long first, long count, T* y,
                      long stride) {
    const long plane = plane_of(stride);
    for (long t = 0; t < count; ++t) {
        const Place at(g, first + t);
        T* image = y + at.image * g.height * g.width * channels;
        const Ahead<4, T> ahead(y, g, channels, first + t, 0);
        for (long c = 0; c < channels; c += LANES) {
            Floats half[24], out[16];
            ahead.ask(c);
            columns<6, 6, 4>([&](long p) { return load(m + p * plane + t * stride + c); }, half, output_1d);
            rows<4, 6, 4>(half, output_1d, [&](long k, const Floats& v) { out[k] = v; });
            for (long i = 0; i < 4 && at.top + i < g.height; ++i)
                for (long j = 0; j < 4 && at.left + j < g.width; ++j)
                    store_some(image + ((at.top + i) * g.width + at.left + j) * channels + c, out[4 * i + j],
                               channels - c);
        }
    }
}

template <typename T>
void transform_gradient(const T* dy, const Grid& g, long channels, long first, long count, float* m,
                        long stride) {
    const long plane = plane_of(stride);
    patches<4>(dy, g, channels, first, count, 0, [&](long t, long c, auto pixel) {
        Floats half[24];
        columns<4, 4, 6>(pixel, half, gradient_1d);
        rows<6, 4, 6>(half, gradient_1d,
                      [&](long p, const Floats& v) { store(m + p * plane + t * stride + c, v); });
    });
}

// --- the matrix product ------------------------------------------------------------------------------------

// Sums of kRows × kVectors vectors, which the registers hold together.
template <long rows, long vectors>
struct Block {
    static constexpr long kRows = rows, kVectors = vectors;

    // C(i, j) = or += Σ_k A(i, k) B(k, j): `row` and `next` are A's distances along i and k, `b_next` and
    // `b_vector` B's along k and from one vector of j to the next.
    template <bool add>
    static inline void multiply(const float* a, long row, long next, const float* b, long b_next,
                                long b_vector, float* c, long c_row, long depth) {
        Floats sums[rows][vectors];
#pragma GCC unroll 12
        for (long i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (long j = 0; j < vectors; ++j) sums[i][j] = add ? load(c + i * c_row + j * LANES) : Floats{};
        for (long k = 0; k < depth; ++k, a += next, b += b_next) {
            Floats factors[vectors];
#pragma GCC unroll 4
            for (long j = 0; j < vectors; ++j) factors[j] = load(b + j * b_vector);
#pragma GCC unroll 12
            for (long i = 0; i < rows; ++i) {
                const float s = a[i * row];
#pragma GCC unroll 4
                for (long j = 0; j < vectors; ++j) sums[i][j] += s * factors[j];
            }
        }
#pragma GCC unroll 12
        for (long i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (long j = 0; j < vectors; ++j) store(c + i * c_row + j * LANES, sums[i][j]);
    }
};

// Calls visit(block) with the widest block that rows of so many vectors can be cut into: 24 sums of the 32
// registers of AVX-512, 12 of the 16 of AVX2. TILES is a multiple of all their rows.
template <typename Visit>
void with_block(long vectors, Visit visit) {
    if constexpr (LANES == 16) {
        if (vectors % 4 == 0) return visit(Block<6, 4>{});
        if (vectors % 3 == 0) return visit(Block<8, 3>{});
        if (vectors % 2 == 0) return visit(Block<12, 2>{});
        return visit(Block<12, 1>{});
    } else {
        if (vectors % 2 == 0) return visit(Block<6, 2>{});
        if (vectors % 3 == 0) return visit(Block<4, 3>{});
        return visit(Block<6, 1>{});
    }
}

// --- filters -----------------------------------------------------------------------------------------------

// One of eighteen sums of three: the filters' transform in one dimension.
inline Floats with_row(const float* g, const Floats& a, const Floats& b, const Floats& c) {
    return g[0] * a + g[1] * b + g[2] * c;
}

template <typename T>
inline float rounded(float value) {
    if constexpr (std::is_same_v<T, float>) return value;
    Floats v = {value};
    Bf16 half[LANES];
    store(half, v);
    return load(half)[0];
}

// V[p][vector of outputs][input][LANES], zero where there is no output; the outputs of one vector.
template <typename T>
void transform_filters(const float* w, const Shape& s, bool turned, long vector, float* v) {
    const long vectors = round_up(s.out, LANES) / LANES, first = vector * LANES;
    const long count = std::min<long>(s.out - first, LANES);
    for (long i = 0; i < s.in; ++i) {
        Floats g[9] = {}, half[18];
        for (long o = 0; o < count; ++o)
            for (long tap = 0; tap < 9; ++tap)
                g[tap][o] = rounded<T>(turned ? w[(i * 9 + 8 - tap) * s.out + first + o]
                                              : w[((first + o) * 9 + tap) * s.in + i]);
        for (long p = 0; p < 6; ++p)
            for (long q = 0; q < 3; ++q) half[3 * p + q] = with_row(G[p], g[q], g[3 + q], g[6 + q]);
        for (long p = 0; p < 6; ++p)
            for (long q = 0; q < 6; ++q)
                store(v + (((p * 6 + q) * vectors + vector) * s.in + i) * LANES,
                      with_row(G[q], half[3 * p], half[3 * p + 1], half[3 * p + 2]));
    }
}

// --- the passes --------------------------------------------------------------------------------------------

template <typename T>
void forward(const T* x, const float* w, T* y, Shape s, bool turned, int threads) {
    const Grid grid(s);
    const long in = round_up(s.in, LANES), out = round_up(s.out, LANES), vectors = out / LANES;
    const long tiles = grid.tiles(), groups = (tiles + TILES - 1) / TILES;
    const Buffer<float> v = zeros<float>(36 * vectors * s.in * LANES);
    share(threads, vectors,
          [&](long vector, size_t) { transform_filters<T>(w, s, turned, vector, v.get()); });
    std::vector<Buffer<float>> us(threads), ms(threads);
    share(threads, groups, [&](long group, size_t thread) {
        Buffer<float>&u = us[thread], &m = ms[thread];
        if (!u) u = zeros<float>(36 * plane_of(in));
        if (!m) m = zeros<float>(36 * plane_of(out));
        const long first = group * TILES, count = std::min(TILES, tiles - first);
        transform_input(x, grid, s.in, first, count, u.get(), in);
        with_block(vectors, [&](auto block) {
            for (long p = 0; p < 36; ++p)
                for (long vector = 0; vector < vectors; vector += block.kVectors)
                    for (long t = 0; t < count; t += block.kRows)
                        block.template multiply<false>(
                            u.get() + p * plane_of(in) + t * in, in, 1,
                            v.get() + (p * vectors + vector) * s.in * LANES, LANES, s.in * LANES,
                            m.get() + p * plane_of(out) + t * out + vector * LANES, out, s.in);
        });
        transform_output(m.get(), grid, s.out, first, count, y, out);
    });
}

// The tiles are cut into one part for each thread, whoever takes it: the same number of threads gives the
// same bits.
template <typename T>
void weight_gradient(const T* x, const T* dy, float* dw, Shape s, int threads) {
    const Grid grid(s);
    const long in = round_up(s.in, LANES), out = round_up(s.out, LANES), vectors = out / LANES;
    const long tiles = grid.tiles(), groups = (tiles + TILES - 1) / TILES;
    const long plane = (s.in + MOST_ROWS) * out;  // a last block of rows may be more than there are
    std::vector<Buffer<float>> sums(threads);
    share(threads, threads, [&](long part, size_t) {
        sums[part] = zeros<float>(36 * plane);
        const Buffer<float> u = zeros<float>(36 * plane_of(in) + MOST_ROWS),
                            m = zeros<float>(36 * plane_of(out));
        for (long group = groups * part / threads; group < groups * (part + 1) / threads; ++group) {
            const long first = group * TILES, count = std::min(TILES, tiles - first);
            transform_input(x, grid, s.in, first, count, u.get(), in);
            transform_gradient(dy, grid, s.out, first, count, m.get(), out);
            with_block(vectors, [&](auto block) {
                for (long p = 0; p < 36; ++p)
                    for (long i = 0; i < s.in; i += block.kRows)
                        for (long vector = 0; vector < vectors; vector += block.kVectors)
                            block.template multiply<true>(
                                u.get() + p * plane_of(in) + i, 1, in,
                                m.get() + p * plane_of(out) + vector * LANES, out, LANES,
                                sums[part].get() + p * plane + i * out + vector * LANES, out, count);
            });
        }
    });
    share(threads, 36, [&](long p, size_t) {
        for (int t = 1; t < threads; ++t)
            for (long n = p * plane; n < (p + 1) * plane; ++n) sums[0][n] += sums[t][n];
    });
    const float* v = sums[0].get();
    share(threads, s.in, [&](long i, size_t) {
        for (long vector = 0; vector < vectors; ++vector) {
            Floats half[18] = {}, g[9] = {};
            for (long p = 0; p < 6; ++p)
                for (long q = 0; q < 6; ++q) {
                    const Floats sum = load(v + (p * 6 + q) * plane + i * out + vector * LANES);
                    for (long r = 0; r < 3; ++r) half[6 * r + q] += G[p][r] * sum;
                }
            for (long r = 0; r < 3; ++r)
                for (long q = 0; q < 3; ++q)
                    for (long p = 0; p < 6; ++p) g[3 * r + q] += G[p][q] * half[6 * r + p];
            for (long o = 0; o < std::min<long>(s.out - vector * LANES, LANES); ++o)
                for (long tap = 0; tap < 9; ++tap)
                    dw[((vector * LANES + o) * 9 + tap) * s.in + i] = g[tap][o];
        }
    });
}

inline Kernels kernels(const char* name) {
    return {name, {forward<float>, weight_gradient<float>}, {forward<Bf16>, weight_gradient<Bf16>}};
}

}  // namespace
}  // namespace WINOGRAD_NAMESPACE
}  // namespace binaryduo::convolution
