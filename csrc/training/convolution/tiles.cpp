// Convolutions in bfloat16 by the matrix tiles of AMX (Sapphire Rapids and later); tiles.md says how tiles
// are laid over an image. Compiled for AMX and called only where the CPU has it and the system lets this
// process use it.
#include "../../common/buffer.h"
#include "../../common/threads.h"
#include "convolution.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace binaryduo::convolution {
namespace {

constexpr long ROWS = 16, DEPTH = 32;  // a tile: 16 rows of 32 bfloat16, or of 16 float32
constexpr long TILE = ROWS * DEPTH;    // bfloat16 values in a tile
constexpr long SUMS = ROWS * ROWS;     // float32 values in a tile
constexpr long PIECES = 8;             // of the images: their weight gradients are added up in this order

inline long round_up(long n, long to) { return (n + to - 1) / to * to; }

// That the CPU has tiles, and may use them, is known from the instruction set's choice; these are for
// bfloat16.
bool cpu_multiplies_bf16() {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1)) return false;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

// All eight tiles in their full size, for the thread that holds this.
class Configured {
  public:
    Configured() {
        alignas(64) uint8_t config[64] = {1};
        for (int tile = 0; tile < 8; ++tile) {
            config[16 + 2 * tile] = 64;  // bytes in a row
            config[48 + tile] = ROWS;
        }
        _tile_loadconfig(config);
    }
    ~Configured() { _tile_release(); }
};

// The compiler does not know what tile instructions read: what was written before is in memory after this.
inline void settle() { asm volatile("" ::: "memory"); }

inline uint16_t rounded(float value) {
    return uint16_t(_mm_cvtsi128_si32((__m128i)_mm_cvtneps_pbh(_mm_set1_ps(value))));
}

// An image with a border of one pixel of zeros, and the run of its pixels that the outputs are computed for:
// `columns` in each of the `height` rows, of which the last two are not part of the image.
struct Padded {
    long height, width, columns, outputs;
    explicit Padded(const Shape& s)
        : height(s.height), width(s.width), columns(s.width + 2), outputs(s.height * (s.width + 2)) {}
    long pixels() const { return (height + 2) * columns; }
};

// Weights as tiles [channel block][kernel row][depth step]: pairs of depths × 16 channels × 2. The depth of a
// kernel row runs over its three pixels and their channels, which are neighbours in memory.
struct Weights {
    long steps, blocks;
    Buffer<uint16_t> tiles;
    Weights(const float* w, const Shape& s, bool turned)
        : steps((3 * s.in + DEPTH - 1) / DEPTH),
          blocks((s.out + ROWS - 1) / ROWS),
          tiles(zeros<uint16_t>(blocks * 3 * steps * TILE)) {
        for (long o = 0; o < s.out; ++o)
            for (long row = 0; row < 3; ++row)
                for (long q = 0; q < 3 * s.in; ++q) {
                    const long column = q / s.in, c = q % s.in;
                    const float value = turned ? w[((c * 3 + 2 - row) * 3 + 2 - column) * s.out + o]
                                               : w[((o * 3 + row) * 3 + column) * s.in + c];
                    const long tile = ((o / ROWS) * 3 + row) * steps + q / DEPTH;
                    tiles[tile * TILE + (q % DEPTH / 2 * ROWS + o % ROWS) * 2 + q % 2] = rounded(value);
                }
    }
    const uint16_t* block(long index) const { return tiles.get() + index * 3 * steps * TILE; }
};

// Sums of 32 neighbouring pixels × (two ? 32 : 16) channels: [pixel block][channel block][16][16].
template <bool two>
inline void multiply(const uint16_t* pixels, long channels, long columns, const Weights& w, long block,
                     float* sums) {
    const uint16_t *first = w.block(block), *second = w.block(block + (two ? 1 : 0));
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (long row = 0; row < 3; ++row)
        for (long step = 0; step < w.steps; ++step) {
            const uint16_t* a = pixels + row * columns * channels + step * DEPTH;
            const long tile = (row * w.steps + step) * TILE;
            _tile_loadd(4, a, channels * 2);
            _tile_loadd(6, first + tile, 64);
            _tile_loadd(5, a + ROWS * channels, channels * 2);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(2, 5, 6);
            if (two) {
                _tile_loadd(7, second + tile, 64);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
    _tile_stored(0, sums, 64);
    _tile_stored(2, sums + 2 * SUMS, 64);
    if (two) {
        _tile_stored(1, sums + SUMS, 64);
        _tile_stored(3, sums + 3 * SUMS, 64);
    }
    settle();
}

void one_image(const uint16_t* x, uint16_t* y, uint16_t* padded, const Weights& w, const Shape& s) {
    const Padded p(s);
    for (long row = 0; row < s.height; ++row)
        std::memcpy(padded + ((row + 1) * p.columns + 1) * s.in, x + row * s.width * s.in,
                    s.width * s.in * 2);
    settle();
    alignas(64) float sums[4 * SUMS];
    for (long block = 0; block < w.blocks; block += 2) {
        const bool two = block + 1 < w.blocks;
        const long count = std::min(s.out - block * ROWS, 2 * ROWS);
        const __mmask32 keep = count == 32 ? ~__mmask32(0) : (__mmask32(1) << count) - 1;
        long row = 0, column = 0;
        for (long first = 0; first < p.outputs; first += 2 * ROWS) {
            if (two)
                multiply<true>(padded + first * s.in, s.in, p.columns, w, block, sums);
            else
                multiply<false>(padded + first * s.in, s.in, p.columns, w, block, sums);
            for (long i = 0; i < 2 * ROWS; ++i) {
                if (column < s.width && row < s.height) {
                    const float* from = sums + (i / ROWS) * 2 * SUMS + i % ROWS * ROWS;
                    const __m512 low = _mm512_load_ps(from);
                    const __m512 high = two ? _mm512_load_ps(from + SUMS) : _mm512_setzero_ps();
                    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(high, low);
                    _mm512_mask_storeu_epi16(y + (row * s.width + column) * s.out + block * ROWS, keep, both);
                }
                if (++column == p.columns) column = 0, ++row;
            }
        }
    }
}

// x (pixels × channels) of one image to planes (channels × padded pixels), eight by eight.
void transpose(const uint16_t* x, const Shape& s, const Padded& p, long plane, uint16_t* planes) {
    for (long row = 0; row < s.height; ++row) {
        const uint16_t* from = x + row * s.width * s.in;
        uint16_t* to = planes + (row + 1) * p.columns + 1;
        long column = 0;
        for (; column + 8 <= s.width; column += 8) {
            long c = 0;
            for (; c + 8 <= s.in; c += 8) {
                __m128i v[8], t[8];
                for (int i = 0; i < 8; ++i)
                    v[i] = _mm_loadu_si128((const __m128i*)(from + (column + i) * s.in + c));
                for (int i = 0; i < 4; ++i) {
                    t[2 * i] = _mm_unpacklo_epi16(v[i], v[i + 4]);
                    t[2 * i + 1] = _mm_unpackhi_epi16(v[i], v[i + 4]);
                }
                for (int i = 0; i < 4; ++i) {
                    v[2 * i] = _mm_unpacklo_epi16(t[i], t[i + 4]);
                    v[2 * i + 1] = _mm_unpackhi_epi16(t[i], t[i + 4]);
                }
                for (int i = 0; i < 4; ++i) {
                    t[2 * i] = _mm_unpacklo_epi16(v[i], v[i + 4]);
                    t[2 * i + 1] = _mm_unpackhi_epi16(v[i], v[i + 4]);
                }
                for (int i = 0; i < 8; ++i) _mm_storeu_si128((__m128i*)(to + (c + i) * plane + column), t[i]);
            }
            for (; c < s.in; ++c)
                for (long i = 0; i < 8; ++i) to[c * plane + column + i] = from[(column + i) * s.in + c];
        }
        for (; column < s.width; ++column)
            for (long c = 0; c < s.in; ++c) to[c * plane + column] = from[column * s.in + c];
    }
}

// dy of one image as pairs of padded pixels: [pair][channel][2], zeros outside of the image.
void interleave(const uint16_t* dy, const Shape& s, const Padded& p, long wide, long depth, uint16_t* pairs) {
    alignas(64) uint16_t low[32], high[32];
    for (int i = 0; i < 16; ++i) {
        low[2 * i] = i, low[2 * i + 1] = 32 + i;
        high[2 * i] = 16 + i, high[2 * i + 1] = 48 + i;
    }
    const __m512i to_low = _mm512_load_si512(low), to_high = _mm512_load_si512(high);
    const auto pixel = [&](long at) -> const uint16_t* {
        const long row = at / p.columns, column = at % p.columns;
        return row < s.height && column < s.width ? dy + (row * s.width + column) * s.out : nullptr;
    };
    for (long at = 0; at < depth; at += 2) {
        const uint16_t *one = pixel(at), *two = pixel(at + 1);
        for (long c = 0; c < wide; c += 32) {
            const long count = std::min(s.out - c, 32L);
            const __mmask32 keep = count == 32 ? ~__mmask32(0) : (__mmask32(1) << count) - 1;
            const __m512i a = one ? _mm512_maskz_loadu_epi16(keep, one + c) : _mm512_setzero_si512();
            const __m512i b = two ? _mm512_maskz_loadu_epi16(keep, two + c) : _mm512_setzero_si512();
            uint16_t* to = pairs + at * wide + 2 * c;
            _mm512_store_si512(to, _mm512_permutex2var_epi16(a, to_low, b));
            _mm512_store_si512(to + 32, _mm512_permutex2var_epi16(a, to_high, b));
        }
    }
}

// Adds one image's gradients: sums [tap][in block][out block][16][16].
void add_gradient(const uint16_t* planes, long plane, const uint16_t* pairs, long wide, long depth,
                  const Shape& s, long columns, float* sums) {
    const long in_blocks = round_up((s.in + ROWS - 1) / ROWS, 2), out_blocks = wide / ROWS;
    for (long i = 0; i < in_blocks; i += 2)
        for (long o = 0; o < out_blocks; o += 2)
            for (long tap = 0; tap < 9; ++tap) {
                const uint16_t* a = planes + i * ROWS * plane + tap / 3 * columns + tap % 3;
                const uint16_t* b = pairs + o * ROWS * 2;
                float* at = sums + ((tap * in_blocks + i) * out_blocks + o) * SUMS;
                float* below = at + out_blocks * SUMS;
                _tile_loadd(0, at, 64);
                _tile_loadd(1, at + SUMS, 64);
                _tile_loadd(2, below, 64);
                _tile_loadd(3, below + SUMS, 64);
                for (long k = 0; k < depth; k += DEPTH) {
                    _tile_loadd(4, a + k, plane * 2);
                    _tile_loadd(6, b + k * wide, wide * 4);
                    _tile_loadd(7, b + k * wide + ROWS * 2, wide * 4);
                    _tile_loadd(5, a + k + ROWS * plane, plane * 2);
                    _tile_dpbf16ps(0, 4, 6);
                    _tile_dpbf16ps(1, 4, 7);
                    _tile_dpbf16ps(2, 5, 6);
                    _tile_dpbf16ps(3, 5, 7);
                }
                _tile_stored(0, at, 64);
                _tile_stored(1, at + SUMS, 64);
                _tile_stored(2, below, 64);
                _tile_stored(3, below + SUMS, 64);
            }
    settle();
}

void forward(const Bf16* from, const float* w, Bf16* to, Shape s, bool turned, int threads) {
    const uint16_t* x = reinterpret_cast<const uint16_t*>(from);
    uint16_t* y = reinterpret_cast<uint16_t*>(to);
    const Weights weights(w, s, turned);
    const Padded p(s);
    // The last tile reads beyond the last pixel, and a kernel row's last depth step beyond its last channel.
    const long room = (p.pixels() + 2 * ROWS + 2) * s.in + DEPTH;
    share(threads, std::min(PIECES * 4, s.images), [&](size_t piece, size_t) {
        const Configured tiles;
        const Buffer<uint16_t> padded = zeros<uint16_t>(room);
        const long pieces = std::min(PIECES * 4, s.images);
        for (long n = s.images * long(piece) / pieces; n < s.images * (long(piece) + 1) / pieces; ++n)
            one_image(x + n * s.height * s.width * s.in, y + n * s.height * s.width * s.out, padded.get(),
                      weights, s);
    });
}

// The same bits for any number of threads.
void weight_gradient(const Bf16* from, const Bf16* grad, float* dw, Shape s, int threads) {
    const uint16_t *x = reinterpret_cast<const uint16_t*>(from),
                   *dy = reinterpret_cast<const uint16_t*>(grad);
    const Padded p(s);
    const long depth = round_up(p.outputs, DEPTH), plane = round_up(depth + 2 * p.columns + 2, DEPTH) + DEPTH;
    const long wide = round_up(s.out, 2 * ROWS), high = round_up(s.in, 2 * ROWS);
    const long pieces = std::min(PIECES, s.images);
    std::vector<Buffer<float>> parts(pieces);
    share(threads, pieces, [&](size_t piece, size_t) {
        const Configured tiles;
        parts[piece] = zeros<float>(9 * high * wide);
        const Buffer<uint16_t> planes = zeros<uint16_t>(high * plane), pairs = zeros<uint16_t>(depth * wide);
        for (long n = s.images * long(piece) / pieces; n < s.images * (long(piece) + 1) / pieces; ++n) {
            transpose(x + n * s.height * s.width * s.in, s, p, plane, planes.get());
            interleave(dy + n * s.height * s.width * s.out, s, p, wide, depth, pairs.get());
            settle();
            add_gradient(planes.get(), plane, pairs.get(), wide, depth, s, p.columns, parts[piece].get());
        }
    });
    for (long o = 0; o < s.out; ++o)
        for (long tap = 0; tap < 9; ++tap)
            for (long i = 0; i < s.in; ++i) {
                const long tile = (tap * (high / ROWS) + i / ROWS) * (wide / ROWS) + o / ROWS;
                float sum = 0;
                for (const Buffer<float>& part : parts) sum += part[tile * SUMS + i % ROWS * ROWS + o % ROWS];
                dw[(o * 9 + tap) * s.in + i] = sum;
            }
}

}  // namespace

const Kernels* kernels_amx() {
    static const bool here = cpu_multiplies_bf16() && kernels_avx512();
    static const Kernels kernels{
        "amx", here ? kernels_avx512()->float32 : Passes<float>{}, {forward, weight_gradient}};
    return here ? &kernels : nullptr;
}

}  // namespace binaryduo::convolution

#else

namespace binaryduo::convolution {
const Kernels* kernels_amx() { return nullptr; }
}  // namespace binaryduo::convolution

#endif
