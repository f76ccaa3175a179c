// Float convolutions, shared by all instruction sets and included inside each one's own namespace.
//
// Weights lie in blocks of 16 output channels; in a block, input k of each of its channels in turn. One call
// of the inner loop keeps 6 pixels × kFloatBlocks blocks in registers, or one block more where that is all
// that is left. A last block of fewer channels is `step` < 16 floats wide: the lanes after them read what
// lies there, and their sums are not used. Every sum is added up in the order (ky, kx, channel), whatever the
// width of the vectors.
//
// A `Policy` gives Floats, kLanes, load and store as Lanes8 does, and kFloatBlocks.

constexpr size_t kFloatRows = 6, kFloatTile = 24, kFloatChannels = 64;  // pixels and channels of one item
constexpr size_t kFloatScratch = kFloatTile * kFloatChannels * sizeof(float) + 64;

// out[row][kFloatChannels] = the sums of kBlocks blocks, `block` floats apart, for kRows pixels. The last one
// of them is `step` floats wide.
template <typename Policy, int kRows, int kBlocks>
void multiply(const float* const* rows, const ConvShape& s, const float* weights, size_t block, size_t step,
              float* out) {
    using Floats = typename Policy::Floats;
    constexpr int kLanes = int(Policy::kLanes), kPer = 16 / kLanes, kVectors = kBlocks * kPer;
    Floats sum[kRows][kVectors];
    BINARYDUO_UNROLL
    for (int i = 0; i < kRows * kVectors; ++i) sum[i / kVectors][i % kVectors] = Floats{};
    const size_t segment = s.segment(), stride = s.padded_width() * s.unit;
    const float* last = weights + (kBlocks - 1) * block;
    for (size_t ky = 0; ky < s.kh; ++ky) {
        const float* at[kRows];
        for (int r = 0; r < kRows; ++r) at[r] = rows[r] + ky * stride;
        for (size_t k = 0; k < segment; ++k, weights += 16, last += step) {
            Floats w[kVectors];
            for (int v = 0; v < kVectors; ++v)
                w[v] = Policy::load((v / kPer < kBlocks - 1 ? weights + v / kPer * block : last) +
                                    v % kPer * kLanes);
            for (int r = 0; r < kRows; ++r) {
                const float x = at[r][k];
                for (int v = 0; v < kVectors; ++v) sum[r][v] += x * w[v];
            }
        }
    }
    BINARYDUO_UNROLL
    for (int i = 0; i < kRows * kVectors; ++i)
        Policy::store(out + i / kVectors * kFloatChannels + i % kVectors * kLanes,
                      sum[i / kVectors][i % kVectors]);
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
    float* sums = reinterpret_cast<float*>(scratch);  // [kFloatTile][kFloatChannels]
    const float* rows[kFloatTile];
    Place place(s, first_pixel);
    for (size_t p = 0; p < pixels; ++p, place.next())
        rows[p] = padded + (place.row() * s.padded_width() + place.column()) * s.unit;
    for (size_t c = 0; c < channels;) {
        const size_t left = channels - c, blocks = (left + 15) / 16;
        const float* w = weights + (first + c) * inputs;
        // All pixels for the same `here` blocks: their weights stay in the nearest cache.
        const auto multiply_all = [&](size_t here, auto multiply_some) {
            const size_t step = std::min<size_t>(left - 16 * (here - 1), 16);
            for (size_t p = 0; p < pixels; p += kRows)
                multiply_some(std::min(kRows, pixels - p), rows + p, s, w, 16 * inputs, step,
                              sums + p * kFloatChannels + c);
            c += 16 * here;
        };
        if (pixels == 1 && left >= 64)  // a dense layer of one image: as many sums as one pixel has
            multiply_all(4, [](size_t, auto... all) { multiply<Policy, 1, 4>(all...); });
        else if (kBlocks > 1 && blocks == kBlocks + 1 && pixels % kRows == 0)
            multiply_all(kBlocks + 1,
                         [](size_t, auto... all) { multiply<Policy, kRows, kBlocks + 1>(all...); });
        else if (kBlocks > 1 && blocks >= kBlocks)
            multiply_all(kBlocks, multiply_rows<Policy, kBlocks>);
        else
            multiply_all(1, multiply_rows<Policy, 1>);
    }
    finish_floats<Policy>(e, sums, kFloatChannels, pixels, first_pixel, first, channels);
}
