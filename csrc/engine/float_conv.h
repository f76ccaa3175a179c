// Float convolutions, shared by all instruction sets and included inside each one's own namespace.
//
// Weights lie in blocks of 16 output channels; in a block, input k of each of its channels in turn. One call
// of the inner loop keeps 6 pixels × kFloatBlocks blocks in registers. A last block of fewer channels is
// `step` < 16 floats wide: the lanes after them read what lies there, and their sums are not used. Every sum
// is added up in the order (ky, kx, channel), whatever the width of the vectors.
//
// A `Policy` gives Floats, kLanes, load and store as Lanes8 does, and kFloatBlocks.

constexpr size_t kFloatRows = 6, kFloatTile = 24, kFloatChannels = 64;  // pixels and channels of one item
constexpr size_t kFloatScratch = kFloatRows * kFloatChannels * sizeof(float) + 64;

// out[row][kFloatChannels] = the sums of kBlocks blocks, `block` floats apart, for kRows pixels.
template <typename Policy, int kRows, int kBlocks>
void multiply(const float* const* rows, const ConvShape& s, const float* weights, size_t block, size_t step,
              float* out) {
    using Floats = typename Policy::Floats;
    constexpr int kLanes = int(Policy::kLanes), kPer = 16 / kLanes, kVectors = kBlocks * kPer;
    Floats sum[kRows][kVectors];
    for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < kVectors; ++v) sum[r][v] = Floats{};
    const size_t segment = s.segment(), stride = s.padded_width() * s.unit;
    for (size_t ky = 0; ky < s.kh; ++ky) {
        const float* at[kRows];
        for (int r = 0; r < kRows; ++r) at[r] = rows[r] + ky * stride;
        for (size_t k = 0; k < segment; ++k, weights += step) {
            Floats w[kVectors];
            for (int v = 0; v < kVectors; ++v)
                w[v] = Policy::load(weights + v / kPer * block + v % kPer * kLanes);
            for (int r = 0; r < kRows; ++r) {
                const float x = at[r][k];
                for (int v = 0; v < kVectors; ++v) sum[r][v] += x * w[v];
            }
        }
    }
    for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < kVectors; ++v) Policy::store(out + r * kFloatChannels + v * kLanes, sum[r][v]);
}

template <typename Policy, int kBlocks>
void multiply_rows(size_t count, const float* const* rows, const ConvShape& s, const float* weights,
                   size_t block, size_t step, float* out) {
    switch (count) {
        case 6:
            return multiply<Policy, 6, kBlocks>(rows, s, weights, block, step, out);
        case 5:
            return multiply<Policy, 5, kBlocks>(rows, s, weights, block, step, out);
        case 4:
            return multiply<Policy, 4, kBlocks>(rows, s, weights, block, step, out);
        case 3:
            return multiply<Policy, 3, kBlocks>(rows, s, weights, block, step, out);
        case 2:
            return multiply<Policy, 2, kBlocks>(rows, s, weights, block, step, out);
        default:
            return multiply<Policy, 1, kBlocks>(rows, s, weights, block, step, out);
    }
}

inline size_t float_items(const ConvShape& s) {
    return tiles_of(s.channels, kFloatChannels) * tiles_of(s.pixels(), kFloatTile);
}

template <typename Policy>
void float_item(const ConvShape& s, const float* padded, const float* weights, const Epilogue& e, size_t item,
                uint8_t* scratch) {
    constexpr size_t kBlocks = Policy::kFloatBlocks, kRows = Policy::kFloatRows;
    const size_t tiles = tiles_of(s.pixels(), kFloatTile), inputs = s.kh * s.segment();
    const size_t first_pixel = item % tiles * kFloatTile,
                 pixels = std::min(kFloatTile, s.pixels() - first_pixel);
    const size_t first = item / tiles * kFloatChannels,
                 channels = std::min(s.channels - first, kFloatChannels);
    float* sums = reinterpret_cast<float*>(scratch);  // [kFloatRows][kFloatChannels]
    Place place(s, first_pixel);
    for (size_t p = 0; p < pixels; p += kRows) {
        const size_t count = std::min(kRows, pixels - p);
        const float* rows[kRows];
        for (size_t r = 0; r < count; ++r, place.next())
            rows[r] = padded + (place.row() * s.padded_width() + place.column()) * s.unit;
        for (size_t c = 0; c < channels;) {
            const size_t left = channels - c, width = std::min<size_t>(left, 16);
            const float* w = weights + (first + c) * inputs;
            if (count == 1 && left >= 64) {  // a dense layer of one image: as many sums as one pixel has
                multiply<Policy, 1, 4>(rows, s, w, 16 * inputs, 16, sums + c);
                c += 64;
            } else if (kBlocks > 1 && left >= 16 * kBlocks) {
                multiply_rows<Policy, kBlocks>(count, rows, s, w, 16 * inputs, 16, sums + c);
                c += 16 * kBlocks;
            } else {
                multiply_rows<Policy, 1>(count, rows, s, w, 0, width, sums + c);
                c += width;
            }
        }
        for (size_t r = 0; r < count; ++r)
            finish_floats<Policy>(e, sums + r * kFloatChannels, first_pixel + p + r, first, channels);
    }
}
