// Binary convolutions with AMX, included inside the namespace of its set: bits become bytes, and one
// instruction multiplies a tile of 16 pixels × 64 inputs by one of 64 inputs × 16 channels, 16,384 products
// in 16 cycles.
//
// The stream holds every padded pixel as `unit` · 8 bytes of 0 and 1. Neighbouring pixels are equally far
// apart, also across the ends of rows, so that a tile of activations is one load from anywhere in it; the
// sums of the pixels in the frame are not used. Where a stride leaves pixels out, the stream holds each
// output pixel's whole window instead. The inputs under a row of the kernel are one strip, in chunks of 64;
// what a last chunk reads too far meets weights of zero.
//
// Weights stay bits in memory, as large as in the file: 8 rows of a tile are the 8 bits of 64 bytes, and one
// GFNI instruction makes a row. While the first tiles of pixels are multiplied, the weights are unpacked
// beside it for all of them.

struct TileConv {
    static constexpr size_t kTiles = 32;  // most tiles of 16 pixels in an item
    static constexpr size_t kSet = 64;    // channels of an item, 32 at a time
    static constexpr size_t kLargest = size_t(64) << 20;

    // By measurement: fewer channels or inputs, or images that fill less than two tiles, are faster by
    // counting or looking up. What is large enough to crowd the cache out is too.
    static bool suits(const ConvShape& s) {
        return s.height > 1 && s.out_height * s.out_width > 16 && s.channels >= 64 && chunks(s) >= 9 &&
               chunks(s) <= 512 && positions(s) * position_bytes(s) <= kLargest;
    }
    static const char* name(const ConvShape&) { return "amx"; }

    static bool gathers(const ConvShape& s) { return s.sh != 1 || s.sw != 1; }
    static size_t strip(const ConvShape& s) { return (s.segment() + 7) / 8; }  // chunks of it
    static size_t chunks(const ConvShape& s) { return s.kh * strip(s); }
    // Bytes from one position in the stream to the next, and positions from one output row to the next.
    static size_t position_bytes(const ConvShape& s) { return gathers(s) ? chunks(s) * 64 : s.unit * 8; }
    static size_t pitch(const ConvShape& s) { return gathers(s) ? s.out_width : s.padded_width(); }
    // Of one image, from its first output pixel to its last one.
    static size_t positions(const ConvShape& s) { return (s.out_height - 1) * pitch(s) + s.out_width; }
    static size_t image_positions(const ConvShape& s) {
        return gathers(s) ? positions(s) : s.padded_height() * s.padded_width();
    }
    static size_t image_tiles(const ConvShape& s) { return tiles_of(positions(s), 16); }

    static size_t weight_bytes(const ConvShape& s) { return (s.channels + 15) / 16 * chunks(s) * 128; }

    // Blocks of 16 channels; in a block, chunk by chunk. Input k of a chunk and channel c of a block are bit
    // k / 4 % 8 of byte k / 32 · 64 + 4 · c + k % 4.
    static void prepare_weights(const ConvShape& s, const uint8_t* weights, uint8_t* out) {
        const size_t segment = s.segment(), inputs = s.kh * segment;
        std::memset(out, 0, weight_bytes(s));
        for (size_t c = 0; c < s.channels; ++c) {
            const size_t from_block = c / 32 * 32, width = std::min<size_t>(32, s.channels - from_block);
            const uint8_t* from = weights + from_block * inputs + c % 32;
            uint8_t* to = out + c / 16 * chunks(s) * 128 + c % 16 * 4;
            for (size_t ky = 0; ky < s.kh; ++ky)
                for (size_t k = 0; k < 8 * segment; ++k) {
                    const size_t chunk = ky * strip(s) + k / 64, i = k % 64;
                    const uint32_t bit = from[(ky * segment + k / 8) * width] >> k % 8 & 1;
                    to[chunk * 128 + i / 32 * 64 + i % 4] |= uint8_t(bit << i / 4 % 8);
                }
        }
    }

    static size_t stream_bytes(const ConvShape& s) {  // a last tile may reach 15 positions too far
        return (s.images * image_positions(s) + 16) * position_bytes(s) + kStreamGuard;
    }
    static size_t padded_bytes(const ConvShape& s) { return s.padded_width() * s.unit + 64; }
    static size_t scratch_bytes(const ConvShape& s) {
        const size_t rows = (gathers(s) ? s.kh : 1) * padded_bytes(s);
        return std::max(rows, chunks(s) * (2048 + sizeof(uint32_t)) + 64);
    }

    static void spread(const uint8_t* bits, uint8_t* out) {  // 8 bytes of bits -> 64 bytes
        uint64_t word;
        std::memcpy(&word, bits, 8);
        _mm512_storeu_si512(out, _mm512_maskz_set1_epi8(word, 1));
    }

    static void prepare_row(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* stream,
                            uint16_t* counts, uint8_t* scratch) {
        count_ones(s, input, row, counts + row * s.padded_width());
        if (gathers(s)) return gather(s, input, row, stream, scratch);
        const size_t bytes = s.padded_width() * s.unit;
        uint8_t* out = stream + row * bytes * 8;
        pad_row(s, input, row, scratch);
        size_t k = 0;
        for (; k + 8 <= bytes; k += 8) spread(scratch + k, out + 8 * k);
        for (; k < bytes; ++k)  // no byte more: another thread may write there
            for (size_t bit = 0; bit < 8; ++bit) out[8 * k + bit] = scratch[k] >> bit & 1;
    }

    // The windows of a row of output pixels; there are no more of these than rows of padded input.
    static void gather(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* stream,
                       uint8_t* scratch) {
        const size_t image = row / s.padded_height(), y = row % s.padded_height(), step = padded_bytes(s);
        if (y >= s.out_height) return;
        for (size_t ky = 0; ky < s.kh; ++ky)
            pad_row(s, input, image * s.padded_height() + y * s.sh + ky, scratch + ky * step);
        uint8_t* out = stream + (image * s.out_height + y) * s.out_width * position_bytes(s);
        for (size_t x = 0; x < s.out_width; ++x)
            for (size_t ky = 0; ky < s.kh; ++ky)
                for (size_t k = 0; k < strip(s); ++k, out += 64)
                    spread(scratch + ky * step + x * s.sw * s.unit + 8 * k, out);
    }

    static size_t tiles(const ConvShape& s) { return s.images * image_tiles(s); }
    static size_t sets(const ConvShape& s) { return (s.channels + kSet - 1) / kSet; }
    static size_t items(const ConvShape& s) { return sets(s) * tiles_of(tiles(s), kTiles); }

    // A chunk of kBlocks blocks of weights, `apart` bytes from each other, as tiles of bytes.
    template <size_t kBlocks>
    static void unpack(const uint8_t* bits, size_t apart, uint8_t* out) {
        for (size_t b = 0; b < kBlocks; ++b, bits += apart)
            for (size_t half = 0; half < 2; ++half) {
                const __m512i v = _mm512_load_si512(bits + 64 * half);
                for (size_t i = 0; i < 8; ++i, out += 64)  // bit i of each byte -> bit 0
                    _mm512_store_si512(out, _mm512_gf2p8affine_epi64_epi8(
                                                v, _mm512_set1_epi64(int64_t(uint64_t(1) << i << 56)), 0));
            }
    }

    // An output pixel, and how many ones are in its window; -1 ones: a position in the frame.
    struct Place16 {
        uint32_t pixel;
        int32_t ones;
    };

    // The last steps of `count` positions; sums[position][16 · kBlocks].
    template <size_t kBlocks>
    static void finish(const Epilogue& e, const Place16* places, size_t count, const int32_t* sums,
                       size_t first, size_t channels) {
        for (size_t p = 0; p < count; ++p, sums += 16 * kBlocks) {
            if (places[p].ones < 0) continue;
            alignas(64) int32_t halves[16 * kBlocks];
            for (size_t b = 0; b < kBlocks; ++b)
                _mm512_store_si512(halves + 16 * b, _mm512_sub_epi32(_mm512_load_si512(sums + 16 * b),
                                                                     _mm512_set1_epi32(places[p].ones >> 1)));
            finish_halves<kBlocks>(e, halves, &places[p].ones, 1, places[p].pixel, first, channels);
        }
    }

    // The population counts of 4 / kBlocks tiles of positions and kBlocks blocks of channels:
    // out[position][16 · kBlocks]. With kUnpack, the weights are unpacked into `weights`, in a ring of `ring`
    // chunks.
    template <size_t kBlocks, bool kUnpack>
    static void multiply(const uint8_t* const* a, size_t step, const uint32_t* offsets, size_t chunks,
                         const uint8_t* bits, uint8_t* weights, size_t ring, int32_t* out) {
        constexpr size_t kTile = 1024, kRow = 64 * kBlocks;
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
        if constexpr (kUnpack) unpack<kBlocks>(bits, 128 * chunks, weights);
        for (size_t k = 0, here = 0; k < chunks; ++k) {
            const uint8_t* w = weights + here * kBlocks * kTile;
            here = here + 1 == ring ? 0 : here + 1;
            if constexpr (kUnpack)
                if (k + 1 < chunks)
                    unpack<kBlocks>(bits + 128 * (k + 1), 128 * chunks, weights + here * kBlocks * kTile);
            TILE_LOAD(6, w, 64);
            TILE_LOAD(4, a[0] + offsets[k], step);
            TILE_MULTIPLY(0, 4, 6);
            if constexpr (kBlocks == 2) {
                TILE_LOAD(7, w + kTile, 64);
                TILE_MULTIPLY(1, 4, 7);
                TILE_LOAD(5, a[1] + offsets[k], step);
                TILE_MULTIPLY(2, 5, 6);
                TILE_MULTIPLY(3, 5, 7);
            } else {
                TILE_LOAD(5, a[1] + offsets[k], step);
                TILE_MULTIPLY(1, 5, 6);
                TILE_LOAD(4, a[2] + offsets[k], step);
                TILE_MULTIPLY(2, 4, 6);
                TILE_LOAD(5, a[3] + offsets[k], step);
                TILE_MULTIPLY(3, 5, 6);
            }
        }
        TILE_STORE(0, out, kRow);
        TILE_STORE(1, out + (kBlocks == 2 ? 16 : 256), kRow);
        TILE_STORE(2, out + 512, kRow);
        TILE_STORE(3, out + (kBlocks == 2 ? 528 : 768), kRow);
    }

    // All tiles of an item, for kBlocks blocks of channels from `first` on. `starts` has three more, to fill
    // the last four up.
    template <size_t kBlocks>
    static void multiply_all(const ConvShape& s, const uint8_t* const* starts, const Place16* places,
                             size_t tiles, const uint32_t* offsets, const uint8_t* bits, uint8_t* weights,
                             const Epilogue& e, size_t first) {
        constexpr size_t kOnce = 4 / kBlocks;
        const size_t all = chunks(s), ring = tiles > kOnce ? all : 4;
        const size_t channels = std::min<size_t>(s.channels - first, 16 * kBlocks);
        alignas(64) int32_t sums[64 * 16];
        for (size_t t = 0; t < tiles; t += kOnce) {
            (t ? multiply<kBlocks, false> : multiply<kBlocks, true>)(starts + t, position_bytes(s), offsets,
                                                                     all, bits, weights, ring, sums);
            finish<kBlocks>(e, places + 16 * t, 16 * std::min(kOnce, tiles - t), sums, first, channels);
        }
    }

    static void find_places(const ConvShape& s, const uint16_t* counts, size_t image, size_t position,
                            Place16* places) {
        size_t y = position / pitch(s), x = position % pitch(s);
        for (size_t i = 0; i < 16; ++i) {
            const bool there = y < s.out_height && x < s.out_width;
            places[i] = {uint32_t((image * s.out_height + y) * s.out_width + x),
                         there ? ones_under(s, counts, image * s.padded_height() + y * s.sh, x * s.sw) : -1};
            if (++x == pitch(s)) x = 0, ++y;
        }
    }

    static void item(const ConvShape& s, const uint8_t* stream, const uint16_t* counts,
                     const uint8_t* weights, const Epilogue& e, size_t number, uint8_t* scratch) {
        const size_t parts = tiles_of(tiles(s), kTiles), part = tile_of(tiles(s), kTiles);
        const size_t first_tile = std::min(number % parts * part, tiles(s));
        const size_t here = std::min(part, tiles(s) - first_tile);
        const uint8_t* starts[kTiles + 3];
        Place16 places[16 * kTiles];
        for (size_t t = 0; t < here; ++t) {
            const size_t image = (first_tile + t) / image_tiles(s),
                         position = (first_tile + t) % image_tiles(s) * 16;
            starts[t] = stream + (image * image_positions(s) + position) * position_bytes(s);
            find_places(s, counts, image, position, places + 16 * t);
        }
        for (size_t t = here; t < here + 3; ++t) starts[t] = stream;
        uint8_t* bytes = scratch;
        uint32_t* offsets = reinterpret_cast<uint32_t*>(scratch + chunks(s) * 2048);
        for (size_t ky = 0, i = 0; ky < s.kh; ++ky)
            for (size_t k = 0; k < strip(s); ++k, ++i)
                offsets[i] = uint32_t(64 * (gathers(s) ? i : k) +
                                      (gathers(s) ? 0 : ky * s.padded_width() * position_bytes(s)));
        configure_tiles();
        const size_t set = number / parts * kSet, end = std::min(s.channels, set + kSet);
        for (size_t c = set; c < end;) {
            const size_t blocks = here > 4 && end - c > 16 ? 2 : 1;
            (blocks == 2 ? multiply_all<2> : multiply_all<1>)(s, starts, places, here, offsets,
                                                              weights + c / 16 * chunks(s) * 128, bytes, e,
                                                              c);
            c += 16 * blocks;
        }
        release_tiles();
    }
};
