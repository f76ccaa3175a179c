// Binary convolutions with VPOPCNTDQ, included inside the namespaces of the AVX-512 sets: 4 bytes of
// activations against 16 output channels in one AND, one population count and one addition, 512
// multiply-accumulates.
//
// Sums of 32 bits never overflow, so the whole window of a pixel is counted in registers, with the last steps
// right after it. Several pixels share every load of weights. These lie ready since the model was loaded: in
// groups of up to 4 blocks of 16 channels; in a group, for each row of the kernel and each word of 4 bytes
// under it, the group's blocks; in a block, the word of each channel.

struct PopcountConv {
    static constexpr size_t kBlocks = 4, kGroup = 16 * kBlocks, kTile = 64;  // kTile: most pixels in an item

    static const char* name(const ConvShape&) { return "vpopcntd"; }
    static size_t words(const ConvShape& s) { return s.kh * ((s.segment() + 3) / 4); }
    static size_t groups(const ConvShape& s) { return (s.channels + kGroup - 1) / kGroup; }

    static size_t weight_bytes(const ConvShape& s) { return (s.channels + 15) / 16 * words(s) * 64; }

    static void prepare_weights(const ConvShape& s, const uint8_t* weights, uint8_t* out) {
        const size_t segment = s.segment(), row = (segment + 3) / 4, inputs = s.kh * segment;
        std::memset(out, 0, weight_bytes(s));
        for (size_t c = 0; c < s.channels; ++c) {
            const size_t block = c / 32 * 32, width = std::min<size_t>(32, s.channels - block);
            const uint8_t* from = weights + block * inputs + c % 32;
            const size_t group = c / kGroup * kGroup,
                         blocks = (std::min(kGroup, s.channels - group) + 15) / 16;
            uint8_t* to = out + group * words(s) * 4 + (c - group) * 4;
            for (size_t ky = 0; ky < s.kh; ++ky)
                for (size_t k = 0; k < segment; ++k)
                    to[(ky * row + k / 4) * blocks * 64 + k % 4] = from[(ky * segment + k) * width];
        }
    }

    static size_t stream_bytes(const ConvShape& s) {
        // The last word of a strip may reach 3 bytes too far; the weights there are zero.
        return s.images * s.padded_height() * s.padded_width() * s.unit + kStreamGuard;
    }
    static size_t scratch_bytes(const ConvShape& s) { return words(s) * sizeof(uint32_t); }

    static void prepare_row(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* stream,
                            uint16_t* counts, uint8_t*) {
        pad_row(s, input, row, stream + row * s.padded_width() * s.unit);
        count_ones(s, input, row, counts + row * s.padded_width());
    }

    // GCC 12 copies every sum after it added to it through the intrinsic.
    static __m512i add(__m512i sum, __m512i n) {
#if defined(BINARYDUO_SIMDE)
        return _mm512_add_epi32(sum, n);
#else
        asm("vpaddd %1, %0, %0" : "+v"(sum) : "v"(n));
        return sum;
#endif
    }

    template <size_t kPixels, size_t kBlocksHere>
    static inline void count(const uint32_t* offsets, size_t words, const uint8_t* const* windows,
                             const int32_t* ones, const uint8_t* weights, int32_t* halves) {
        __m512i sum[kPixels][kBlocksHere];
        BINARYDUO_UNROLL
        for (size_t i = 0; i < kPixels * kBlocksHere; ++i)
            sum[i / kBlocksHere][i % kBlocksHere] = _mm512_set1_epi32(-(ones[i / kBlocksHere] >> 1));
        for (size_t k = 0; k < words; ++k, weights += 64 * kBlocksHere) {
            __m512i a[kPixels];
            for (size_t p = 0; p < kPixels; ++p) {
                int32_t word;
                std::memcpy(&word, windows[p] + offsets[k], 4);
                a[p] = _mm512_set1_epi32(word);
            }
            for (size_t b = 0; b < kBlocksHere; ++b) {
                const __m512i w = _mm512_load_si512(weights + 64 * b);
                for (size_t p = 0; p < kPixels; ++p)
                    sum[p][b] = add(sum[p][b], _mm512_popcnt_epi32(_mm512_and_si512(a[p], w)));
            }
        }
        BINARYDUO_UNROLL
        for (size_t i = 0; i < kPixels * kBlocksHere; ++i)
            _mm512_store_si512(halves + 16 * i, sum[i / kBlocksHere][i % kBlocksHere]);
    }

    template <size_t kPixels, size_t kBlocksHere>
    static void count_all(const uint32_t* offsets, size_t words, const uint8_t* const* windows,
                          const int32_t* ones, size_t pixels, const uint8_t* weights, const Epilogue& e,
                          size_t pixel, size_t first, size_t channels) {
        alignas(64) int32_t halves[kPixels * kBlocksHere * 16];
        for (size_t p = 0, here; p < pixels; p += here) {
            here = p + kPixels <= pixels ? kPixels : 1;
            (here > 1 ? count<kPixels, kBlocksHere> : count<1, kBlocksHere>)(offsets, words, windows + p,
                                                                             ones + p, weights, halves);
            finish_halves<kBlocksHere>(e, halves, ones + p, here, pixel + p, first, channels);
        }
    }

    // Equal tiles, of whole groups of pixels that share the weights.
    static size_t tile(const ConvShape& s) { return (tile_of(s.pixels(), kTile) + 3) / 4 * 4; }
    static size_t tiles(const ConvShape& s) { return tiles_of(s.pixels(), tile(s)); }
    static size_t items(const ConvShape& s) { return groups(s) * tiles(s); }

    static void item(const ConvShape& s, const uint8_t* stream, const uint16_t* counts,
                     const uint8_t* weights, const Epilogue& e, size_t number, uint8_t* scratch) {
        const size_t pixel = number % tiles(s) * tile(s), pixels = std::min(tile(s), s.pixels() - pixel);
        const size_t first = number / tiles(s) * kGroup, channels = std::min(s.channels - first, kGroup);
        const uint8_t* windows[kTile];  // where each pixel's starts in the stream
        int32_t ones[kTile];            // in each window
        find_windows(s, stream, s.unit, counts, pixel, pixels, windows, ones);
        uint32_t* offsets = reinterpret_cast<uint32_t*>(scratch);  // of each word of a window from its start
        for (size_t ky = 0, i = 0; ky < s.kh; ++ky)
            for (size_t k = 0; k < s.segment(); k += 4)
                offsets[i++] = uint32_t(ky * s.padded_width() * s.unit + k);
        const uint8_t* here = weights + first * words(s) * 4;
        static const bool four = has_wide_vectors();
        const auto run = [&](auto count) {
            count(offsets, words(s), windows, ones, pixels, here, e, pixel, first, channels);
        };
        switch ((channels + 15) / 16) {
            case 4:
                return four ? run(count_all<4, 4>) : run(count_all<2, 4>);
            case 3:
                return four ? run(count_all<4, 3>) : run(count_all<2, 3>);
            case 2:
                return run(count_all<4, 2>);
            default:
                return run(count_all<8, 1>);
        }
    }
};
