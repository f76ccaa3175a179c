// Convolutions of bytes 0 to 255 (the pixels of an image, or bits as 0 and 1) with weights of -128 to 127,
// shared by all instruction sets and included inside each one's own namespace. Sums are 32-bit integers, so
// that every set gives the same ones; they become floats in the last steps.
//
// Weights lie ready since the model was loaded: in groups of kBlocks blocks of 16 channels; in a group, for
// each row of the kernel and each kStep inputs under it, the group's blocks; in a block, kStep weights of
// each channel. The input is padded physically, so that the inputs under one row of the kernel are
// contiguous; the last step of a row may reach past them, where the weights are zero.
//
// `Steps` says how a set multiplies and adds:
//     kStep, kPixels, kBlocks    inputs of one step; pixels and blocks of channels that registers hold
//     Weight                     the type that weights are kept in
//     Input, Weights, Sums       of one pixel; of 16 channels; the sums of 16 channels
//     input(p), weights(p), add(sums, input, weights), to_floats(sums, out)

template <typename Policy, typename Steps>
struct ByteConv {
    using Weight = typename Steps::Weight;
    static constexpr size_t kStep = Steps::kStep, kBlocks = Steps::kBlocks, kGroup = 16 * kBlocks;
    static constexpr size_t kTile = 48;  // most pixels of an item

    static size_t row_steps(const ConvShape& s) { return (s.segment() + kStep - 1) / kStep; }
    static size_t block_weights(const ConvShape& s) { return s.kh * row_steps(s) * 16 * kStep; }

    // Blocks of the group that begins at channel `first`: 1, 2 or kBlocks, so that few loops are compiled.
    static size_t blocks_of(const ConvShape& s, size_t first) {
        const size_t blocks = (std::min(kGroup, s.channels - first) + 15) / 16;
        return blocks < 3 ? blocks : kBlocks;
    }

    static size_t weight_bytes(const ConvShape& s) {
        const size_t last = (s.channels - 1) / kGroup * kGroup;
        return (last / 16 + blocks_of(s, last)) * block_weights(s) * sizeof(Weight);
    }

    // From blocks of 16 channels with the channel innermost, as floats lie too.
    static void prepare_weights(const ConvShape& s, const int8_t* weights, uint8_t* out) {
        const size_t segment = s.segment(), inputs = s.kh * segment, steps = row_steps(s);
        std::memset(out, 0, weight_bytes(s));
        for (size_t c = 0; c < s.channels; ++c) {
            const size_t block = c / 16 * 16, width = std::min<size_t>(16, s.channels - block);
            const int8_t* from = weights + block * inputs + c % 16;
            const size_t group = c / kGroup * kGroup, blocks = blocks_of(s, group);
            Weight* to = reinterpret_cast<Weight*>(out) + group / 16 * block_weights(s) +
                         (c - group) / 16 * 16 * kStep + c % 16 * kStep;
            for (size_t ky = 0; ky < s.kh; ++ky)
                for (size_t k = 0; k < segment; ++k)
                    to[(ky * steps + k / kStep) * blocks * 16 * kStep + k % kStep] =
                        Weight(from[(ky * segment + k) * width]);
        }
    }

    static size_t items(const ConvShape& s) {
        return tiles_of(s.channels, kGroup) * tiles_of(s.pixels(), kTile);
    }

    template <size_t kPixels, size_t kBlocksHere>
    static void count(const ConvShape& s, const uint8_t* const* windows, const Weight* weights,
                      const Epilogue& e, size_t pixel, size_t first, size_t channels) {
        typename Steps::Sums sum[kPixels][kBlocksHere];
        for (size_t p = 0; p < kPixels; ++p)
            for (size_t b = 0; b < kBlocksHere; ++b) sum[p][b] = typename Steps::Sums{};
        const size_t steps = row_steps(s), stride = s.padded_width() * s.unit;
        for (size_t ky = 0; ky < s.kh; ++ky) {
            const uint8_t* at[kPixels];
            for (size_t p = 0; p < kPixels; ++p) at[p] = windows[p] + ky * stride;
            for (size_t k = 0; k < steps * kStep; k += kStep, weights += 16 * kStep * kBlocksHere) {
                typename Steps::Input x[kPixels];
                for (size_t p = 0; p < kPixels; ++p) x[p] = Steps::input(at[p] + k);
                for (size_t b = 0; b < kBlocksHere; ++b) {
                    const typename Steps::Weights w = Steps::weights(weights + 16 * kStep * b);
                    for (size_t p = 0; p < kPixels; ++p) sum[p][b] = Steps::add(sum[p][b], x[p], w);
                }
            }
        }
        alignas(64) float floats[kPixels][16 * kBlocksHere];
        for (size_t p = 0; p < kPixels; ++p)
            for (size_t b = 0; b < kBlocksHere; ++b) Steps::to_floats(sum[p][b], floats[p] + 16 * b);
        finish_floats<Policy>(e, floats[0], 16 * kBlocksHere, kPixels, pixel, first, channels);
    }

    template <size_t kBlocksHere>
    static void count_all(const ConvShape& s, const uint8_t* const* windows, size_t pixels,
                          const Weight* weights, const Epilogue& e, size_t pixel, size_t first,
                          size_t channels) {
        size_t p = 0;
        for (; p + Steps::kPixels <= pixels; p += Steps::kPixels)
            count<Steps::kPixels, kBlocksHere>(s, windows + p, weights, e, pixel + p, first, channels);
        for (; p < pixels; ++p) count<1, kBlocksHere>(s, windows + p, weights, e, pixel + p, first, channels);
    }

    static void item(const ConvShape& s, const uint8_t* padded, const uint8_t* weights, const Epilogue& e,
                     size_t number) {
        const size_t tiles = tiles_of(s.pixels(), kTile), tile = tile_of(s.pixels(), kTile);
        const size_t pixel = std::min(number % tiles * tile, s.pixels());
        const size_t pixels = std::min(tile, s.pixels() - pixel);
        const size_t first = number / tiles * kGroup, channels = std::min(s.channels - first, kGroup);
        const uint8_t* windows[kTile];
        Place place(s, pixel);
        for (size_t p = 0; p < pixels; ++p, place.next())
            windows[p] = padded + (place.row() * s.padded_width() + place.column()) * s.unit;
        const Weight* here = reinterpret_cast<const Weight*>(weights) + first / 16 * block_weights(s);
        const size_t blocks = blocks_of(s, first);
        if (blocks == 1)
            count_all<1>(s, windows, pixels, here, e, pixel, first, channels);
        else if (blocks == 2)
            count_all<2>(s, windows, pixels, here, e, pixel, first, channels);
        else
            count_all<kBlocks>(s, windows, pixels, here, e, pixel, first, channels);
    }
};

// For sets without an instruction of their own for it: one input at a time, eight channels in a vector.
struct PlainByteSteps {
    static constexpr size_t kStep = 1, kPixels = 2, kBlocks = 2;
    using Weight = int16_t;
    typedef int16_t Half __attribute__((vector_size(16), aligned(2)));
    struct Weights {
        Ints8 part[2];
    };
    using Input = int32_t;
    using Sums = Weights;
    static Input input(const uint8_t* p) { return *p; }
    static Weights weights(const Weight* p) {
        return {{__builtin_convertvector(*reinterpret_cast<const Half*>(p), Ints8),
                 __builtin_convertvector(*reinterpret_cast<const Half*>(p + 8), Ints8)}};
    }
    static Sums add(const Sums& sums, Input x, const Weights& w) {
        return {{sums.part[0] + x * w.part[0], sums.part[1] + x * w.part[1]}};
    }
    static void to_floats(const Sums& sums, float* out) {
        for (size_t i = 0; i < 2; ++i)
            Lanes8::store(out + 8 * i, __builtin_convertvector(sums.part[i], Floats8));
    }
};
