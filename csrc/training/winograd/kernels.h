// The kernels of winograd.h, written once with vectors of eight floats and compiled once for each instruction
// set. Include with WINOGRAD_NAMESPACE defined.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "../../common/buffer.h"
#include "../../common/threads.h"
#include "winograd.h"

namespace binaryduo::winograd {
namespace WINOGRAD_NAMESPACE {
namespace {

#include "../../common/vectors.h"

constexpr long TILES = 48;  // tiles that go through all steps together, so that they stay in the cache
constexpr long ROWS = 6;  // rows and columns of the matrix product's inner block: 6 × 16 fills the registers
constexpr long COLUMNS = 16;

// --- the transforms in one dimension; `s` is the distance between elements ---------------------------------

inline void input_1d(const Floats8* d, long s, Floats8* u, long t) {
    const Floats8 d0 = d[0], d1 = d[s], d2 = d[2 * s], d3 = d[3 * s], d4 = d[4 * s], d5 = d[5 * s];
    const Floats8 a = d4 - 4 * d2, b = d3 - 4 * d1, c = d4 - d2, e = 2 * (d3 - d1);
    u[0] = 4 * d0 - 5 * d2 + d4;
    u[t] = a + b;
    u[2 * t] = a - b;
    u[3 * t] = c + e;
    u[4 * t] = c - e;
    u[5 * t] = 4 * d1 - 5 * d3 + d5;
}

inline void output_1d(const Floats8* m, long s, Floats8* y, long t) {
    const Floats8 m0 = m[0], m1 = m[s], m2 = m[2 * s], m3 = m[3 * s], m4 = m[4 * s], m5 = m[5 * s];
    const Floats8 a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4;
    y[0] = m0 + a + c;
    y[t] = b + 2 * d;
    y[2 * t] = a + 4 * c;
    y[3 * t] = b + 8 * d + m5;
}

inline void gradient_1d(const Floats8* y, long s, Floats8* m, long t) {
    const Floats8 y0 = y[0], y1 = y[s], y2 = y[2 * s], y3 = y[3 * s];
    const Floats8 a = y0 + y2, b = y1 + y3, c = y0 + 4 * y2, d = 2 * y1 + 8 * y3;
    m[0] = y0;
    m[t] = a + b;
    m[2 * t] = a - b;
    m[3 * t] = c + d;
    m[4 * t] = c - d;
    m[5 * t] = y3;
}

const float G[6][3] = {{1.f / 4, 0, 0},
                       {-1.f / 6, -1.f / 6, -1.f / 6},
                       {-1.f / 6, 1.f / 6, -1.f / 6},
                       {1.f / 24, 1.f / 12, 1.f / 6},
                       {1.f / 24, -1.f / 12, 1.f / 6},
                       {0, 0, 1}};

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

// U[p][t][channel] of `count` tiles from `first` on; the row of a tile has `stride` floats.
void transform_input(const float* x, const Grid& g, long channels, long first, long count, float* u,
                     long stride) {
    const long plane = TILES * stride;
    const float* end = x + g.images * g.height * g.width * channels;
    for (long t = 0; t < count; ++t) {
        const Place at(g, first + t);
        const float* image = x + at.image * g.height * g.width * channels;
        for (long c = 0; c < channels; c += 8) {
            Floats8 d[36], half[36];
            for (long i = 0; i < 6; ++i) {
                const long row = at.top + i - 1;
                for (long j = 0; j < 6; ++j) {
                    const long column = at.left + j - 1;
                    const bool inside = row >= 0 && row < g.height && column >= 0 && column < g.width;
                    d[6 * i + j] = inside ? load_before(image + (row * g.width + column) * channels + c, end)
                                          : Floats8{};
                }
            }
            for (long j = 0; j < 6; ++j) input_1d(d + j, 6, half + j, 6);
            for (long i = 0; i < 6; ++i) input_1d(half + 6 * i, 1, d + 6 * i, 1);
            for (long p = 0; p < 36; ++p) store(u + p * plane + t * stride + c, d[p]);
        }
    }
}

void transform_output(const float* m, const Grid& g, long channels, long first, long count, float* y,
                      long stride) {
    const long plane = TILES * stride;
    for (long t = 0; t < count; ++t) {
        const Place at(g, first + t);
        float* image = y + at.image * g.height * g.width * channels;
        for (long c = 0; c < channels; c += 8) {
            Floats8 d[36], half[24], out[16];
            for (long p = 0; p < 36; ++p) d[p] = load(m + p * plane + t * stride + c);
            for (long j = 0; j < 6; ++j) output_1d(d + j, 6, half + j, 6);
            for (long i = 0; i < 4; ++i) output_1d(half + 6 * i, 1, out + 4 * i, 1);
            for (long i = 0; i < 4 && at.top + i < g.height; ++i)
                for (long j = 0; j < 4 && at.left + j < g.width; ++j)
                    store_some(image + ((at.top + i) * g.width + at.left + j) * channels + c, out[4 * i + j],
                               channels - c);
        }
    }
}

void transform_gradient(const float* dy, const Grid& g, long channels, long first, long count, float* m,
                        long stride) {
    const long plane = TILES * stride;
    const float* end = dy + g.images * g.height * g.width * channels;
    for (long t = 0; t < count; ++t) {
        const Place at(g, first + t);
        const float* image = dy + at.image * g.height * g.width * channels;
        for (long c = 0; c < channels; c += 8) {
            Floats8 d[16], half[24], out[36];
            for (long i = 0; i < 4; ++i)
                for (long j = 0; j < 4; ++j) {
                    const bool inside = at.top + i < g.height && at.left + j < g.width;
                    const float* pixel = image + ((at.top + i) * g.width + at.left + j) * channels + c;
                    d[4 * i + j] = inside ? load_before(pixel, end) : Floats8{};
                }
            for (long j = 0; j < 4; ++j) gradient_1d(d + j, 4, half + j, 4);
            for (long i = 0; i < 6; ++i) gradient_1d(half + 4 * i, 1, out + 6 * i, 1);
            for (long p = 0; p < 36; ++p) store(m + p * plane + t * stride + c, out[p]);
        }
    }
}

// --- the matrix product: C (6 × 16) = or += Σ_k A(i, k) B(k, j)
// ---------------------------------------------

template <bool add>
inline void block(const float* a, long row, long next, const float* b, long b_next, float* c, long c_row,
                  long depth) {
    Floats8 c0[ROWS], c1[ROWS];
    for (long i = 0; i < ROWS; ++i) {
        c0[i] = add ? load(c + i * c_row) : Floats8{};
        c1[i] = add ? load(c + i * c_row + 8) : Floats8{};
    }
    for (long k = 0; k < depth; ++k, a += next, b += b_next) {
        const Floats8 b0 = load(b), b1 = load(b + 8);
#pragma GCC unroll 6
        for (long i = 0; i < ROWS; ++i) {
            const float s = a[i * row];
            c0[i] += s * b0;
            c1[i] += s * b1;
        }
    }
    for (long i = 0; i < ROWS; ++i) {
        store(c + i * c_row, c0[i]);
        store(c + i * c_row + 8, c1[i]);
    }
}

// V[p][panel of 16 outputs][input][16], zero where there is no output; the outputs of one panel.
void transform_filters(const float* w, const Shape& s, bool turned, long panel, float* v) {
    const long panels = round_up(s.out, COLUMNS) / COLUMNS;
    for (long o = panel * COLUMNS; o < std::min(s.out, (panel + 1) * COLUMNS); ++o)
        for (long i = 0; i < s.in; ++i) {
            float g[3][3], half[6][3];
            for (long r = 0; r < 3; ++r)
                for (long q = 0; q < 3; ++q)
                    g[r][q] = turned ? w[((i * 3 + 2 - r) * 3 + 2 - q) * s.out + o]
                                     : w[((o * 3 + r) * 3 + q) * s.in + i];
            for (long p = 0; p < 6; ++p)
                for (long q = 0; q < 3; ++q)
                    half[p][q] = G[p][0] * g[0][q] + G[p][1] * g[1][q] + G[p][2] * g[2][q];
            for (long p = 0; p < 6; ++p)
                for (long q = 0; q < 6; ++q)
                    v[(((p * 6 + q) * panels + panel) * s.in + i) * COLUMNS + o % COLUMNS] =
                        G[q][0] * half[p][0] + G[q][1] * half[p][1] + G[q][2] * half[p][2];
        }
}

void forward(const float* x, const float* w, float* y, Shape s, bool turned, int threads) {
    const Grid grid(s);
    const long in = round_up(s.in, 8), out = round_up(s.out, COLUMNS), panels = out / COLUMNS;
    const long tiles = grid.tiles(), groups = (tiles + TILES - 1) / TILES;
    const Buffer<float> v = zeros<float>(36 * panels * s.in * COLUMNS);
    share(threads, panels, [&](long panel, size_t) { transform_filters(w, s, turned, panel, v.get()); });
    std::vector<Buffer<float>> us(threads), ms(threads);
    share(threads, groups, [&](long group, size_t thread) {
        Buffer<float>&u = us[thread], &m = ms[thread];
        if (!u) u = zeros<float>((36 * TILES + ROWS) * in);
        if (!m) m = zeros<float>(36 * TILES * out);
        const long first = group * TILES, count = std::min(TILES, tiles - first);
        transform_input(x, grid, s.in, first, count, u.get(), in);
        for (long p = 0; p < 36; ++p)
            for (long panel = 0; panel < panels; ++panel) {
                const float* b = v.get() + (p * panels + panel) * s.in * COLUMNS;
                for (long t = 0; t < count; t += ROWS)
                    block<false>(u.get() + (p * TILES + t) * in, in, 1, b, COLUMNS,
                                 m.get() + (p * TILES + t) * out + panel * COLUMNS, out, s.in);
            }
        transform_output(m.get(), grid, s.out, first, count, y, out);
    });
}

// The tiles are cut into one part for each thread, whoever takes it: the same number of threads gives the
// same bits.
void weight_gradient(const float* x, const float* dy, float* dw, Shape s, int threads) {
    const Grid grid(s);
    const long in = round_up(s.in, 8), rows = round_up(s.in, ROWS), out = round_up(s.out, COLUMNS);
    const long tiles = grid.tiles(), groups = (tiles + TILES - 1) / TILES, plane = rows * out;
    std::vector<Buffer<float>> sums(threads);
    share(threads, threads, [&](long part, size_t) {
        sums[part] = zeros<float>(36 * plane);
        const Buffer<float> u = zeros<float>(36 * TILES * in + ROWS), m = zeros<float>(36 * TILES * out);
        for (long group = groups * part / threads; group < groups * (part + 1) / threads; ++group) {
            const long first = group * TILES, count = std::min(TILES, tiles - first);
            transform_input(x, grid, s.in, first, count, u.get(), in);
            transform_gradient(dy, grid, s.out, first, count, m.get(), out);
            for (long p = 0; p < 36; ++p)
                for (long i = 0; i < rows; i += ROWS)
                    for (long j = 0; j < out; j += COLUMNS)
                        block<true>(u.get() + p * TILES * in + i, 1, in, m.get() + p * TILES * out + j, out,
                                    sums[part].get() + p * plane + i * out + j, out, count);
        }
    });
    share(threads, 36, [&](long p, size_t) {
        for (int t = 1; t < threads; ++t)
            for (long n = p * plane; n < (p + 1) * plane; ++n) sums[0][n] += sums[t][n];
    });
    const float* v = sums[0].get();
    share(threads, s.in, [&](long i, size_t) {
        for (long o = 0; o < s.out; ++o) {
            float half[3][6];
            for (long r = 0; r < 3; ++r)
                for (long q = 0; q < 6; ++q) {
                    half[r][q] = 0;
                    for (long p = 0; p < 6; ++p) half[r][q] += G[p][r] * v[(p * 6 + q) * plane + i * out + o];
                }
            for (long r = 0; r < 3; ++r)
                for (long q = 0; q < 3; ++q) {
                    float sum = 0;
                    for (long p = 0; p < 6; ++p) sum += half[r][p] * G[p][q];
                    dw[((o * 3 + r) * 3 + q) * s.in + i] = sum;
                }
        }
    });
}

}  // namespace
}  // namespace WINOGRAD_NAMESPACE
}  // namespace binaryduo::winograd
