// Binary convolutions with VBMI and GFNI, for the namespace of that set: lookups in constant tables.
//
// Six activations of a pixel select one of 64 constant tables T_a[w] = popcount(a & w) of 64 bytes, and
// `vpermb` looks the six-bit weight groups of 64 output channels up in it. Two pixels share a byte: the table
// of the pair (a, a') is T_a | T_a' << 4, and one lookup does 6 × 64 × 2 = 768 multiply-accumulates. The
// table is made once for all blocks of channels.
//
// A nibble holds up to 15 and one group adds at most 6: two lookups are added as they are (v, a chunk), then
//     S += v (modulo 256),  H += v >> 4        (bytes; the shift is one affine transformation over GF(2))
// so that after 21 chunks Σ high = H <= 252 and Σ low = S − 16 · H modulo 256. These bytes are then added up
// in 16-bit lanes by the same trick: A += x (modulo 65536), O += x >> 8; Σ odd bytes = O, Σ even bytes = A −
// 256 · O. Even bytes hold channels 0 to 31 of a block, odd ones 32 to 63.
//
// Each pixel starts with a new group: ⌈bits / 6⌉ groups. Weights lie ready since the model was loaded: in
// sets of up to 4 blocks; in a set, for each chunk and each of its two groups, 64 bytes of each block.

struct Six {
    alignas(64) uint8_t table[2][64][64];
    constexpr Six() : table() {
        for (int a = 0; a < 64; ++a)
            for (int w = 0; w < 64; ++w) {
                int count = 0;
                for (int bit = 0; bit < 6; ++bit) count += (a >> bit) & (w >> bit) & 1;
                table[0][a][w] = uint8_t(count);
                table[1][a][w] = uint8_t(count << 4);
            }
    }
};
constexpr Six kSix;

struct LookupConv {
    static constexpr size_t kBlocks = 4, kChunks = 21;  // kChunks: most of them before bytes overflow
    static constexpr size_t kTile =
        16;  // most pixels of an item: their sums stay in the cache with the weights

    // A table is made once for all blocks of channels and serves two pixels: with one block, or for dense
    // layers, whose pixels are images, population counts are faster.
    static bool suits(const ConvShape& s) { return s.channels >= 128 && s.height > 1; }
    static const char* name(const ConvShape&) { return "vpermb"; }
    static size_t pixel_groups(const ConvShape& s) { return (s.unit * 8 + 5) / 6; }
    static size_t row_chunks(const ConvShape& s) { return (s.kw * pixel_groups(s) + 1) / 2; }
    static size_t chunks(const ConvShape& s) { return s.kh * row_chunks(s); }
    static size_t blocks(const ConvShape& s) { return (s.channels + 63) / 64; }
    static size_t sets(const ConvShape& s) { return tiles_of(blocks(s), kBlocks); }
    static size_t set_blocks(const ConvShape& s) { return tile_of(blocks(s), kBlocks); }

    static size_t weight_bytes(const ConvShape& s) { return blocks(s) * chunks(s) * 128; }

    static void prepare_weights(const ConvShape& s, const uint8_t* weights, uint8_t* out) {
        const size_t segment = s.segment(), inputs = s.kh * segment, groups = pixel_groups(s);
        std::memset(out, 0, weight_bytes(s));
        for (size_t c = 0; c < s.channels; ++c) {
            const size_t file_block = c / 32 * 32, width = std::min<size_t>(32, s.channels - file_block);
            const uint8_t* from = weights + file_block * inputs + c % 32;
            const size_t block = c / 64, first = block / set_blocks(s) * set_blocks(s);
            const size_t here = std::min(set_blocks(s), blocks(s) - first);
            const size_t lane = c % 32 * 2 + c % 64 / 32;
            uint8_t* to = out + first * chunks(s) * 128 + (block - first) * 64 + lane;
            for (size_t ky = 0; ky < s.kh; ++ky)
                for (size_t kx = 0; kx < s.kw; ++kx)
                    for (size_t g = 0; g < groups; ++g) {
                        const size_t byte = g * 6 / 8, at = (ky * s.kw + kx) * s.unit + byte;
                        uint32_t bits = from[at * width];
                        if (byte + 1 < s.unit) bits |= uint32_t(from[(at + 1) * width]) << 8;
                        const size_t group = ky * 2 * row_chunks(s) + kx * groups + g;
                        to[group * here * 64] = uint8_t(bits >> g * 6 % 8 & 63);
                    }
        }
    }

    static size_t stream_bytes(const ConvShape& s) {
        // The last chunk of a strip may reach one group too far; the weights there are zero.
        return s.images * s.padded_height() * s.padded_width() * pixel_groups(s) * sizeof(uint16_t) +
               kStreamGuard;
    }

    static size_t scratch_bytes(const ConvShape& s) {
        return chunks(s) * sizeof(uint32_t) + 64 + s.padded_width() * s.unit + 128;
    }

    // Each group of six activations becomes the offset of its table.
    static void prepare_row(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* stream,
                            uint16_t* counts, uint8_t* scratch) {
        const size_t groups = pixel_groups(s);
        uint16_t* out = reinterpret_cast<uint16_t*>(stream) + row * s.padded_width() * groups;
        count_ones(s, input, row, counts + row * s.padded_width());
        pad_row(s, input, row, scratch);
        alignas(64) static constexpr uint8_t kSpread[64] = {
            0,  1,  2,  3,  4,  5,  6,  7,  6,  7,  8,  9,  10, 11, 12, 13, 12, 13, 14, 15, 16, 17,
            18, 19, 18, 19, 20, 21, 22, 23, 24, 25, 24, 25, 26, 27, 28, 29, 30, 31, 30, 31, 32, 33,
            34, 35, 36, 37, 36, 37, 38, 39, 40, 41, 42, 43, 42, 43, 44, 45, 46, 47, 48, 49};
        const __m512i spread = _mm512_load_si512(kSpread), six = _mm512_set1_epi8(63);
        const __m512i shifts = _mm512_set1_epi64(0x2a241e18120c0600);  // 0, 6, 12, … 42 in each word
        for (size_t x = 0; x < s.padded_width(); ++x, out += groups)
            for (size_t g = 0, k = 0; g < groups; g += 64, k += 48) {
                const __m512i bytes = load_bytes(scratch + x * s.unit + k, std::min<size_t>(s.unit - k, 64));
                const __m512i sixes = _mm512_and_si512(
                    _mm512_multishift_epi64_epi8(shifts, _mm512_permutexvar_epi8(spread, bytes)), six);
                alignas(64) uint8_t stored[64];
                _mm512_store_si512(stored, sixes);
                for (size_t i = 0; i < std::min<size_t>(groups - g, 64); i += 32) {
                    const Bytes32 some = *reinterpret_cast<const Bytes32*>(stored + i);
                    store_shorts(out + g + i, __builtin_convertvector(some, Shorts32) << 6,
                                 std::min<size_t>(groups - g - i, 32));
                }
            }
    }

    static size_t tile(const ConvShape& s) { return (tile_of(s.pixels(), kTile) + 3) / 4 * 4; }
    static size_t items(const ConvShape& s) { return sets(s) * tiles_of(s.pixels(), tile(s)); }

    static __m512i high_nibbles(__m512i v) {
        return _mm512_gf2p8affine_epi64_epi8(v, _mm512_set1_epi64(0x1020408000000000), 0);
    }
    static __m512i low_to_high(__m512i v) {
        return _mm512_gf2p8affine_epi64_epi8(v, _mm512_set1_epi64(0x0000000001020408), 0);
    }

    // The sums of a pair of pixels and a block of channels, in 16-bit lanes.
    struct Sums {
        __m512i all[2], odd[2];  // of each pixel: A and O
    };

    static __m512i add_bytes(__m512i sum, __m512i v) {  // see PopcountConv::add
#if defined(BINARYDUO_SIMDE)
        return _mm512_add_epi8(sum, v);
#else
        asm("vpaddb %1, %0, %0" : "+v"(sum) : "v"(v));
        return sum;
#endif
    }

    // Adds up to kChunks chunks of kPairs pairs of pixels to their sums; with `fresh`, starts them.
    template <size_t kPairs, size_t kBlocksHere>
    static void count(const uint8_t* const* windows, const uint32_t* offsets, size_t chunks,
                      const uint8_t* weights, bool fresh, Sums* sums) {
        const uint8_t *one = &kSix.table[0][0][0], *other = &kSix.table[1][0][0];
        __m512i sum[kPairs][kBlocksHere], high[kPairs][kBlocksHere];
        BINARYDUO_UNROLL
        for (size_t i = 0; i < kPairs * kBlocksHere; ++i)
            sum[i / kBlocksHere][i % kBlocksHere] = high[i / kBlocksHere][i % kBlocksHere] =
                _mm512_setzero_si512();
        for (size_t k = 0; k < chunks; ++k, weights += 128 * kBlocksHere) {
            __m512i table[kPairs][2];
            for (size_t p = 0; p < kPairs; ++p)
                for (size_t g = 0; g < 2; ++g) {
                    uint16_t a, b;
                    std::memcpy(&a, windows[2 * p] + offsets[k] + 2 * g, 2);
                    std::memcpy(&b, windows[2 * p + 1] + offsets[k] + 2 * g, 2);
                    table[p][g] = _mm512_or_si512(_mm512_load_si512(one + a), _mm512_load_si512(other + b));
                }
            for (size_t b = 0; b < kBlocksHere; ++b) {
                const __m512i w0 = _mm512_load_si512(weights + 64 * b);
                const __m512i w1 = _mm512_load_si512(weights + 64 * (kBlocksHere + b));
                for (size_t p = 0; p < kPairs; ++p) {
                    const __m512i v = _mm512_add_epi8(_mm512_permutexvar_epi8(w0, table[p][0]),
                                                      _mm512_permutexvar_epi8(w1, table[p][1]));
                    sum[p][b] = add_bytes(sum[p][b], v);
                    high[p][b] = add_bytes(high[p][b], high_nibbles(v));
                }
            }
        }
        BINARYDUO_UNROLL
        for (size_t j = 0; j < kPairs * kBlocksHere; ++j, ++sums) {
            const size_t p = j / kBlocksHere, b = j % kBlocksHere;
            const __m512i parts[2] = {_mm512_sub_epi8(sum[p][b], low_to_high(high[p][b])), high[p][b]};
            for (size_t i = 0; i < 2; ++i) {
                const __m512i odd = _mm512_srli_epi16(parts[i], 8);
                sums->all[i] = fresh ? parts[i] : _mm512_add_epi16(sums->all[i], parts[i]);
                sums->odd[i] = fresh ? odd : _mm512_add_epi16(sums->odd[i], odd);
            }
        }
    }

    // The counts of pixel `i` of a pair and one block, less half of the window's ones.
    static void to_halves(const Sums& sums, size_t i, int32_t ones, int32_t* halves) {
        const __m512i odd = sums.odd[i], even = _mm512_sub_epi16(sums.all[i], _mm512_slli_epi16(odd, 8));
        alignas(64) uint16_t counts[64];
        _mm512_store_si512(counts, even);
        _mm512_store_si512(counts + 32, odd);
        for (size_t b = 0; b < 64; b += 16) {
            const Shorts16 n = *reinterpret_cast<const Shorts16*>(counts + b);
            const Ints16 half = __builtin_convertvector(n, Ints16) - (ones >> 1);
            std::memcpy(halves + b, &half, sizeof half);
        }
    }

    template <size_t kBlocksHere>
    static void count_all(const ConvShape& s, const uint8_t* const* windows, const int32_t* ones,
                          size_t pixels, const uint32_t* offsets, const uint8_t* weights, const Epilogue& e,
                          size_t pixel, size_t first) {
        Sums sums[kTile / 2][kBlocksHere];
        const size_t all = chunks(s), parts = tiles_of(all, kChunks), part = tile_of(all, kChunks);
        for (size_t i = 0, k = 0; i < parts; ++i, k += part) {
            const size_t here = std::min(part, all - std::min(all, k));
            const uint8_t* w = weights + k * 128 * kBlocksHere;
            size_t p = 0;
            for (; p + 2 < pixels; p += 4)
                count<2, kBlocksHere>(windows + p, offsets + k, here, w, i == 0, sums[p / 2]);
            for (; p < pixels; p += 2)
                count<1, kBlocksHere>(windows + p, offsets + k, here, w, i == 0, sums[p / 2]);
        }
        alignas(64) int32_t halves[kTile * 64];
        for (size_t b = 0; b < kBlocksHere; ++b) {
            for (size_t p = 0; p < pixels; ++p) to_halves(sums[p / 2][b], p % 2, ones[p], halves + 64 * p);
            finish_halves<4>(e, halves, ones, pixels, pixel, first + 64 * b,
                             std::min<size_t>(s.channels - first - 64 * b, 64));
        }
    }

    static void item(const ConvShape& s, const uint8_t* stream, const uint16_t* counts,
                     const uint8_t* weights, const Epilogue& e, size_t number, uint8_t* scratch) {
        const size_t tiles = tiles_of(s.pixels(), tile(s)), groups = pixel_groups(s);
        const size_t pixel = std::min(number % tiles * tile(s), s.pixels());
        const size_t pixels = std::min(tile(s), s.pixels() - pixel);
        const size_t block = number / tiles * set_blocks(s),
                     here = std::min(set_blocks(s), blocks(s) - block);
        const uint8_t* windows[kTile + 4];  // and those that fill a last pair up
        int32_t ones[kTile];
        find_windows(s, stream, groups * sizeof(uint16_t), counts, pixel, pixels, windows, ones);
        for (size_t p = pixels; p < pixels + 3; ++p) windows[p] = windows[pixels - 1];
        uint32_t* offsets = reinterpret_cast<uint32_t*>(scratch);
        for (size_t ky = 0, i = 0; ky < s.kh; ++ky)
            for (size_t k = 0; k < row_chunks(s); ++k)
                offsets[i++] = uint32_t((ky * s.padded_width() * groups + 2 * k) * sizeof(uint16_t));
        const size_t first = block * 64;
        const uint8_t* w = weights + block * chunks(s) * 128;
        switch (here) {
            case 4:
                count_all<4>(s, windows, ones, pixels, offsets, w, e, pixel, first);
                break;
            case 3:
                count_all<3>(s, windows, ones, pixels, offsets, w, e, pixel, first);
                break;
            case 2:
                count_all<2>(s, windows, ones, pixels, offsets, w, e, pixel, first);
                break;
            default:
                count_all<1>(s, windows, ones, pixels, offsets, w, e, pixel, first);
        }
    }
};
