// The kernels of norm.h, written once with vectors of LANES floats and compiled once for each instruction
// set. Include with NORM_NAMESPACE defined. Sums are taken in float over a block of rows and in double over
// the blocks.
#include <algorithm>
#include <cmath>
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
#include "norm.h"

namespace binaryduo::norm {
namespace NORM_NAMESPACE {
namespace {

#include "../vectors.h"

constexpr long BLOCK = 64;  // rows whose sums are taken in float
constexpr long MOST_PIECES = 16;

inline Floats all(float value) { return Floats{} + value; }

// v where `keep`, else zero.
inline Floats where(Ints keep, Floats v) { return (Floats)((Ints)v & keep); }

// Values of some channels, padded to whole vectors with zeros.
std::vector<float> padded(const float* values, long count) {
    std::vector<float> result(round_up(count, LANES));
    std::copy(values, values + count, result.begin());
    return result;
}

// y = slope·x + offset for each copy of each channel.
struct Affine {
    std::vector<std::vector<float>> slope, offset;
    std::vector<float> mean, scale;  // of x: (x - mean)·scale has mean 0 and variance 1

    Affine(const float* weight, const float* bias, const float* m, const float* var, float eps, Shape s)
        : mean(padded(m, s.channels)), scale(round_up(s.channels, LANES)) {
        for (long c = 0; c < s.channels; ++c) scale[c] = float(1 / std::sqrt(double(var[c]) + eps));
        for (long copy = 0; copy < s.copies; ++copy) {
            slope.push_back(padded(weight + copy * s.channels, s.channels));
            offset.push_back(padded(bias + copy * s.channels, s.channels));
            for (long c = 0; c < s.channels; ++c) {
                slope[copy][c] *= scale[c];
                offset[copy][c] -= slope[copy][c] * mean[c];
            }
        }
    }
};

// The rows are cut into pieces of whole blocks, however many threads there are: sums over pieces are the
// same.
inline long pieces(const Shape& s) { return std::min(MOST_PIECES, (s.rows + BLOCK - 1) / BLOCK); }

// Calls visit(first, last) for the blocks of rows of one piece.
template <typename Visit>
void blocks(const Shape& s, long piece, Visit visit) {
    const long groups = (s.rows + BLOCK - 1) / BLOCK, count = pieces(s);
    for (long group = groups * piece / count; group < groups * (piece + 1) / count; ++group)
        visit(group * BLOCK, std::min(s.rows, (group + 1) * BLOCK));
}

// Calls visit(c, whole) for the vectors of a row's channels; the last one may not be whole. What it loads of
// the next row, or of nothing after the last row, is never stored.
template <typename Visit>
inline void vectors(long channels, Visit visit) {
    long c = 0;
    for (; c + LANES <= channels; c += LANES) visit(c, std::true_type{});
    if (c < channels) visit(c, std::false_type{});
}

template <bool whole, typename T>
inline Floats take(const T* p, const T* end) {
    return whole ? load(p) : load_before(p, end);
}

template <bool whole, typename T>
inline void put(T* p, Floats v, long count) {
    if (whole)
        store(p, v);
    else
        store_some(p, v, count);
}

// Float sums of a block of rows, for each of `count` channels, and the double sums that they are added to.
class Sums {
  public:
    explicit Sums(long count) : total(count), part_(round_up(count, LANES) / LANES + 1) {}
    Floats& operator[](long vector) { return part_[vector]; }
    // Adds up what lies in vectors from `vector` on to the channels from `first` on.
    void flush(long vector, long first, long count) {
        for (long i = 0; i < count; ++i) total[first + i] += part_[vector + i / LANES][i % LANES];
        std::fill_n(part_.begin() + vector, round_up(count, LANES) / LANES, Floats{});
    }
    std::vector<double> total;

  private:
    std::vector<Floats> part_;
};

// One vector for each piece, added up in the order of the pieces.
std::vector<double> total(std::vector<std::vector<double>>& parts) {
    for (size_t t = 1; t < parts.size(); ++t)
        for (size_t i = 0; i < parts[0].size(); ++i) parts[0][i] += parts[t][i];
    return parts[0];
}

template <typename T>
void statistics(const T* x, const Shape& s, float* mean, float* var, int threads) {
    const T* end = x + s.rows * s.channels;
    // Sums of the distances from the first row: no large numbers that nearly cancel.
    std::vector<float> shift(round_up(s.channels, LANES));
    vectors(s.channels, [&](long c, auto whole) { store(&shift[c], take<whole>(x + c, end)); });
    std::vector<std::vector<double>> parts(pieces(s));
    share(threads, pieces(s), [&](long piece, size_t) {
        Sums sum(s.channels), squares(s.channels);
        blocks(s, piece, [&](long first, long last) {
            for (long row = first; row < last; ++row)
                vectors(s.channels, [&](long c, auto whole) {
                    const Floats d = take<whole>(x + row * s.channels + c, end) - load(&shift[c]);
                    sum[c / LANES] += d;
                    squares[c / LANES] += d * d;
                });
            sum.flush(0, 0, s.channels);
            squares.flush(0, 0, s.channels);
        });
        parts[piece] = std::move(sum.total);
        parts[piece].insert(parts[piece].end(), squares.total.begin(), squares.total.end());
    });
    const std::vector<double> sums = total(parts);
    for (long c = 0; c < s.channels; ++c) {
        const double m = sums[c] / s.rows;
        mean[c] = float(shift[c] + m);
        var[c] = float(std::max(0.0, sums[s.channels + c] / s.rows - m * m));
    }
}

// What is made of y: y itself, one of two levels, or one of more.
enum class After { kNothing, kBinary, kLevels };

template <After after>
inline Floats activated(Floats y, float steps) {
    if (after == After::kNothing) return y;
    if (after == After::kBinary) return where(y >= all(0.5f), all(1.0f));
    Floats t = y * steps + 0.5f;
    t = where(t > Floats{}, t);
    t = t < all(steps) ? t : all(steps);
    return __builtin_convertvector(__builtin_convertvector(t, Ints), Floats) / steps;
}

template <After after, typename T>
void activate(const T* x, const Affine& a, float steps, const Shape& s, T* out, int threads) {
    const T* end = x + s.rows * s.channels;
    share(threads, pieces(s), [&](long piece, size_t) {
        blocks(s, piece, [&](long first, long last) {
            for (long row = first; row < last; ++row)
                for (long copy = 0; copy < s.copies; ++copy) {
                    const float *slope = a.slope[copy].data(), *offset = a.offset[copy].data();
                    T* to = out + (row * s.copies + copy) * s.channels;
                    vectors(s.channels, [&](long c, auto whole) {
                        const Floats value = take<whole>(x + row * s.channels + c, end);
                        const Floats y = value * load(slope + c) + load(offset + c);
                        put<whole>(to + c, activated<after>(y, steps), s.channels - c);
                    });
                }
        });
    });
}

template <typename T>
void forward(const T* x, const float* weight, const float* bias, float eps, int levels, Shape s, float* mean,
             float* var, T* out, int threads) {
    statistics(x, s, mean, var, threads);
    const Affine a(weight, bias, mean, var, eps, s);
    if (levels == 0)
        activate<After::kNothing>(x, a, 0, s, out, threads);
    else if (levels == 2)
        activate<After::kBinary>(x, a, 1, s, out, threads);
    else
        activate<After::kLevels>(x, a, float(levels - 1), s, out, threads);
}

template <bool clipped, typename T>
void gradients(const T* x, const T* grad, const float* weight, const float* bias, const float* mean,
               const float* var, float eps, Shape s, T* dx, float* dweight, float* dbias, int threads) {
    const Affine a(weight, bias, mean, var, eps, s);
    const long wide = s.copies * s.channels;
    const T *end = x + s.rows * s.channels, *grad_end = grad + s.rows * wide;
    // The gradient of y for LANES channels of a copy.
    const auto passed = [&](Floats value, long copy, long c, Floats incoming) {
        if (!clipped) return incoming;
        const Floats y = value * load(&a.slope[copy][c]) + load(&a.offset[copy][c]);
#if defined(__AVX512F__)
        asm("" : "+v"(incoming));  // or GCC loads under the mask, which waits for y: a third of the speed
#endif
        return where((y >= Floats{}) & (y <= all(1.0f)), incoming);
    };
    std::vector<std::vector<double>> parts(pieces(s));
    share(threads, pieces(s), [&](long piece, size_t) {
        const long stride = round_up(s.channels, LANES) / LANES;  // vectors a copy
        Sums sum(s.copies * stride * LANES), product(s.copies * stride * LANES);
        blocks(s, piece, [&](long first, long last) {
            for (long row = first; row < last; ++row)
                for (long copy = 0; copy < s.copies; ++copy)
                    vectors(s.channels, [&](long c, auto whole) {
                        const T* from = grad + (row * s.copies + copy) * s.channels + c;
                        const Floats value = take<whole>(x + row * s.channels + c, end);
                        const Floats g = passed(value, copy, c, take<whole>(from, grad_end));
                        sum[copy * stride + c / LANES] += g;
                        product[copy * stride + c / LANES] += g * (value - load(&a.mean[c]));
                    });
            for (long copy = 0; copy < s.copies; ++copy) {
                sum.flush(copy * stride, copy * s.channels, s.channels);
                product.flush(copy * stride, copy * s.channels, s.channels);
            }
        });
        sum.total.resize(wide);  // of the gradients of y, then of their products with x - mean
        product.total.resize(wide);
        parts[piece] = std::move(sum.total);
        parts[piece].insert(parts[piece].end(), product.total.begin(), product.total.end());
    });
    const std::vector<double> sums = total(parts);
    // dx = scale·(h - mean(h) - x̂·mean(h·x̂)) with h = Σ weight·gradient over the copies and x̂ = (x -
    // mean)·scale
    std::vector<float> level(round_up(s.channels, LANES)), tilt(round_up(s.channels, LANES));
    for (long c = 0; c < s.channels; ++c) {
        double plain = 0, along = 0;
        for (long copy = 0; copy < s.copies; ++copy) {
            const long at = copy * s.channels + c;
            dbias[at] = float(sums[at]);
            dweight[at] = float(sums[wide + at] * a.scale[c]);
            plain += double(weight[at]) * sums[at];
            along += double(weight[at]) * sums[wide + at] * a.scale[c];
        }
        level[c] = float(plain / s.rows * a.scale[c]);
        tilt[c] = float(along / s.rows * a.scale[c] * a.scale[c]);
    }
    share(threads, pieces(s), [&](long piece, size_t) {
        blocks(s, piece, [&](long first, long last) {
            for (long row = first; row < last; ++row)
                vectors(s.channels, [&](long c, auto whole) {
                    const Floats value = take<whole>(x + row * s.channels + c, end);
                    Floats h = {};
                    for (long copy = 0; copy < s.copies; ++copy) {
                        const T* from = grad + (row * s.copies + copy) * s.channels + c;
                        h += load(&a.slope[copy][c]) * passed(value, copy, c, take<whole>(from, grad_end));
                    }
                    const Floats slant = (value - load(&a.mean[c])) * load(&tilt[c]);
                    put<whole>(dx + row * s.channels + c, h - load(&level[c]) - slant, s.channels - c);
                });
        });
    });
}

template <typename T>
void backward(const T* x, const T* grad, const float* weight, const float* bias, const float* mean,
              const float* var, float eps, int levels, Shape s, T* dx, float* dweight, float* dbias,
              int threads) {
    const auto chosen = levels == 0 ? gradients<false, T> : gradients<true, T>;
    chosen(x, grad, weight, bias, mean, var, eps, s, dx, dweight, dbias, threads);
}

constexpr Kernels kernels(const char* name) {
    return {name, {forward<float>, backward<float>}, {forward<Bf16>, backward<Bf16>}};
}

}  // namespace
}  // namespace NORM_NAMESPACE
}  // namespace binaryduo::norm
