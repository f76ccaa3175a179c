// Binary convolutions in tiles, for instruction sets that lay weights out anew for each tile of pixels.
// Included inside each set's own namespace.
//
// Activations a are {0, 1}, weights w are {-1, +1}, stored as bits: the sum over the inputs is
//     Σ a·w = 2 · popcount(a & w) − popcount(a)
// and zero padding is exact. Weights lie in blocks of 32 output channels; in a block, byte k of each of its
// channels in turn, so that one load brings the same 8 inputs of 32 channels. K runs over (ky, kx, channel).
//
// Nothing is copied for the kernel window: with the input padded physically, the inputs under one row of
// the kernel are contiguous, so a convolution is `kh` strips of kw · unit bytes for each pixel.
//
// A `Policy` says how it counts:
//     kPixels          pixels of one row counted at once (neighbours)
//     kStreamUnit      bytes in the prepared stream for one byte of activations
//     kBlockBytes      most weight bytes of a channel that one call of count() may take
//     kBlocks          most blocks of 32 channels in one call
//     prepare(padded, bytes, shift, out)    bytes of a padded row -> stream; shift = bytes to the neighbour
//     expand(weights, stride, k, n, out, blocks, b)    block b's k bytes of n channels -> scratch
//     count(stream, scratch, k, blocks, counts, first)    counts[pixel][blocks · 32] += popcount(a & w), or
//                                           = where first

template <typename Policy>
struct TiledBinaryConv {
    static constexpr size_t kTile = 32;  // most groups of kPixels in one item

    static size_t groups_of(const ConvShape& s) {
        return s.images * s.out_height * ((s.out_width + Policy::kPixels - 1) / Policy::kPixels);
    }
    static size_t row_bytes(const ConvShape& s) { return s.padded_width() * s.unit * Policy::kStreamUnit; }

    static const char* name(const ConvShape&) { return Policy::kName; }
    static size_t weight_bytes(const ConvShape&) { return 0; }
    static void prepare_weights(const ConvShape&, const uint8_t*, uint8_t*) {}

    static size_t stream_bytes(const ConvShape& s) {
        // A kernel may read a few bytes after a strip: see Model, which keeps zeros after the last one.
        return s.images * s.padded_height() * row_bytes(s) + kStreamGuard;
    }

    static size_t scratch_bytes(const ConvShape& s) {
        const size_t padded = (s.padded_width() + s.sw) * s.unit + 128;
        const size_t counts = kTile * Policy::kPixels * 32 * Policy::kBlocks * sizeof(uint16_t);
        const size_t weights = (Policy::kBlockBytes + 4) * 2 * 32 * Policy::kBlocks;
        return std::max(padded, counts + weights + 256);
    }

    static void prepare_row(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* stream,
                            uint16_t* counts, uint8_t* scratch) {
        const size_t bytes = s.padded_width() * s.unit, shift = s.sw * s.unit;
        pad_row(s, input, row, scratch);
        std::memset(scratch + bytes, 0, shift + 64);
        count_ones(s, input, row, counts + row * s.padded_width());
        Policy::prepare(scratch, bytes, shift, stream + row * row_bytes(s));
    }

    static size_t items(const ConvShape& s) {
        return (s.channels + 32 * Policy::kBlocks - 1) / (32 * Policy::kBlocks) *
               tiles_of(groups_of(s), kTile);
    }

    static void item(const ConvShape& s, const uint8_t* stream, const uint16_t* counts,
                     const uint8_t* weights, const Epilogue& e, size_t number, uint8_t* scratch) {
        const size_t all_groups = groups_of(s), tiles = tiles_of(all_groups, kTile),
                     tile = tile_of(all_groups, kTile);
        const size_t first_group = std::min(number % tiles * tile, all_groups);
        const size_t groups = std::min(tile, all_groups - first_group);
        const size_t first_channel = number / tiles * 32 * Policy::kBlocks;
        const size_t channels = std::min(s.channels - first_channel, 32 * Policy::kBlocks);
        const size_t blocks = (channels + 31) / 32, lanes = blocks * 32;
        const size_t segment = s.segment(), inputs = s.kh * segment,
                     per_row = (s.out_width + Policy::kPixels - 1) / Policy::kPixels;
        uint16_t* sums = reinterpret_cast<uint16_t*>(scratch);  // [group][pixel][lanes]
        uint8_t* expanded = scratch + kTile * Policy::kPixels * 32 * Policy::kBlocks * sizeof(uint16_t);

        const uint8_t* start[kTile];
        size_t rows[kTile], columns[kTile];  // of the first pixel: padded input row and column
        for (size_t g = 0; g < groups; ++g) {
            const size_t group = first_group + g, line = group / per_row;  // line = (image, out row)
            const size_t x = group % per_row * Policy::kPixels;
            rows[g] = line / s.out_height * s.padded_height() + line % s.out_height * s.sh;
            columns[g] = x * s.sw;
            start[g] = stream + rows[g] * row_bytes(s) + columns[g] * s.unit * Policy::kStreamUnit;
        }

        const size_t parts = (segment + Policy::kBlockBytes - 1) / Policy::kBlockBytes;
        const size_t part = std::min((((segment + parts - 1) / parts) + 2) / 3 * 3, Policy::kBlockBytes);
        for (size_t ky = 0; ky < s.kh; ++ky) {
            for (size_t k = 0; k < segment; k += part) {
                const size_t n = std::min(part, segment - k);
                for (size_t b = 0; b < blocks; ++b) {
                    const size_t channel = first_channel + 32 * b,
                                 width = std::min<size_t>(32, s.channels - channel);
                    Policy::expand(weights + channel * inputs + (ky * segment + k) * width, width, n,
                                   expanded, blocks, b);
                }
                const size_t offset = ky * row_bytes(s) + k * Policy::kStreamUnit;
                for (size_t g = 0; g < groups; ++g)
                    Policy::count(start[g] + offset, expanded, n, blocks, sums + g * Policy::kPixels * lanes,
                                  ky == 0 && k == 0);
            }
        }

        for (size_t g = 0; g < groups; ++g) {
            const size_t group = first_group + g, line = group / per_row;
            for (size_t p = 0; p < Policy::kPixels; ++p) {
                const size_t x = group % per_row * Policy::kPixels + p;
                if (x >= s.out_width) break;
                finish_counts<Policy>(e, sums + (g * Policy::kPixels + p) * lanes,
                                      ones_under(s, counts, rows[g], columns[g] + p * s.sw),
                                      line * s.out_width + x, first_channel, channels);
            }
        }
    }
};
