// Float convolutions, shared by all instruction sets and included inside each one's own namespace.
//
// Weights lie in blocks of 16 output channels; in a block, input k of each of its channels in turn.
// One call of the inner loop keeps 6 pixels × 16 channels in registers. A last block of fewer channels is
// `step` < 16 floats wide: the lanes after them read what lies there, and their sums are not used.
template <int kRows>
void multiply(const float* const* rows, size_t segments, size_t segment, size_t stride, const float* weights,
              size_t step, float* out) {
    Floats8 sum[kRows][2];
    for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = Floats8{};
    for (size_t s = 0; s < segments; ++s) {
        const float* at[kRows];
        for (int r = 0; r < kRows; ++r) at[r] = rows[r] + s * stride;
        for (size_t k = 0; k < segment; ++k, weights += step) {
            const Floats8 w0 = load(weights);
            const Floats8 w1 = load(weights + 8);
            for (int r = 0; r < kRows; ++r) {
                const float x = at[r][k];
                sum[r][0] += x * w0;
                sum[r][1] += x * w1;
            }
        }
    }
    for (int r = 0; r < kRows; ++r) {
        store(out + r * 16, sum[r][0]);
        store(out + r * 16 + 8, sum[r][1]);
    }
}

constexpr size_t kFloatTile = 24, kFloatChannels = 64;  // pixels and channels of one item
constexpr size_t kFloatScratch = (6 * 16 + 6 * kFloatChannels) * sizeof(float) + 256;

inline size_t float_items(const ConvShape& s) {
    return ((s.channels + kFloatChannels - 1) / kFloatChannels) *
           ((s.pixels() + kFloatTile - 1) / kFloatTile);
}

template <typename Policy>
void float_item(const ConvShape& s, const float* padded, const float* weights, const Epilogue& e, size_t item,
                uint8_t* scratch) {
    const size_t tiles = (s.pixels() + kFloatTile - 1) / kFloatTile;
    const size_t first_pixel = item % tiles * kFloatTile,
                 pixels = std::min(kFloatTile, s.pixels() - first_pixel);
    const size_t first_channel = item / tiles * kFloatChannels;
    const size_t end_channel = std::min(s.channels, first_channel + kFloatChannels);
    const size_t stride = s.padded_width() * s.unit, inputs = s.kh * s.segment();
    float* sums = reinterpret_cast<float*>(scratch);  // [6][64]
    float* block = sums + 6 * kFloatChannels;         // [6][16]
    for (size_t p = 0; p < pixels; p += 6) {
        const size_t count = std::min<size_t>(6, pixels - p);
        const float* rows[6];
        for (size_t r = 0; r < count; ++r) {
            const size_t pixel = first_pixel + p + r, x = pixel % s.out_width, line = pixel / s.out_width;
            const size_t y = line / s.out_height * s.padded_height() + line % s.out_height * s.sh;
            rows[r] = padded + (y * s.padded_width() + x * s.sw) * s.unit;
        }
        for (size_t c = first_channel; c < end_channel; c += 16) {
            const float* w = weights + c * inputs;
            const size_t width = std::min<size_t>(16, s.channels - c);
            switch (count) {
                case 6:
                    multiply<6>(rows, s.kh, s.segment(), stride, w, width, block);
                    break;
                case 5:
                    multiply<5>(rows, s.kh, s.segment(), stride, w, width, block);
                    break;
                case 4:
                    multiply<4>(rows, s.kh, s.segment(), stride, w, width, block);
                    break;
                case 3:
                    multiply<3>(rows, s.kh, s.segment(), stride, w, width, block);
                    break;
                case 2:
                    multiply<2>(rows, s.kh, s.segment(), stride, w, width, block);
                    break;
                default:
                    multiply<1>(rows, s.kh, s.segment(), stride, w, width, block);
            }
            for (size_t r = 0; r < count; ++r)
                std::memcpy(sums + r * kFloatChannels + (c - first_channel), block + r * 16,
                            width * sizeof(float));
        }
        for (size_t r = 0; r < count; ++r)
            finish_floats<Policy>(e, FromFloats<Policy>{sums + r * kFloatChannels}, first_pixel + p + r,
                                  first_channel, end_channel - first_channel);
    }
}
