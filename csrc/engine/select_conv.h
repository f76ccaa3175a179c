// Float weights on a tensor of bits, shared by all instruction sets and included inside each one's own
// namespace: a bit says whether a weight is added, so nothing is unpacked and nothing multiplied.
//
// The 16 sums that four inputs can select are made once, for 16 output channels at a time,
//     table[bits] = (w0 + w1) + (w2 + w3)    of the selected ones,
// and serve all pixels of an item: one addition for four inputs. The tables of kSelectBytes bytes of a pixel
// stay in the first-level cache, the pixels' sums wait in the second-level one. Sums are in the order (ky,
// kx, channel / 4) on every instruction set, and there is no multiplication to be fused: all give the same
// floats.
//
// Weights lie as for float_conv.h. Bits that a copy's last byte does not use are zero, so that table entries
// with them, made of whatever weights, are never read.

constexpr size_t kSelectTile = 512, kSelectChannels = 64;  // most pixels and channels of one item
constexpr size_t kSelectBytes = 18;                        // bytes of a pixel whose tables are kept at once
constexpr size_t kSelectPixels = 4;                        // pixels whose sums are in registers
constexpr size_t kSelectScratch =
    (kSelectBytes * 2 * 16 * 16 + kSelectTile * kSelectChannels) * sizeof(float) + 64;

// The two tables of one byte, whose `rows` inputs' weights begin at `weights`, `step` floats each.
template <typename Policy>
inline void make_tables(const float* weights, size_t step, size_t rows, float* out) {
    using Floats = typename Policy::Floats;
    for (size_t input = 0; input < 8; input += 4, out += 16 * 16)
        for (size_t lane = 0; lane < 16; lane += Policy::kLanes) {
            Floats w[4];
            for (size_t i = 0; i < 4; ++i)
                w[i] = Policy::load(weights + std::min(input + i, rows - 1) * step + lane);
            const Floats low[4] = {Floats{}, w[0], w[1], w[0] + w[1]};
            const Floats high[4] = {Floats{}, w[2], w[3], w[2] + w[3]};
            for (size_t i = 0; i < 16; ++i) Policy::store(out + 16 * i + lane, low[i % 4] + high[i / 4]);
        }
}

// Adds what `bytes` bytes of kSelectPixels pixels select to their sums, which are `stride` floats apart.
template <typename Policy>
inline void add_selected(const uint8_t* const* pixels, size_t offset, size_t bytes, const float* tables,
                         float* sums, size_t stride, bool first) {
    using Floats = typename Policy::Floats;
    constexpr size_t kVectors = 16 / Policy::kLanes;
    Floats sum[kSelectPixels][kVectors];
    const uint8_t* at[kSelectPixels];
    for (size_t p = 0; p < kSelectPixels; ++p) {
        at[p] = pixels[p] + offset;
        for (size_t v = 0; v < kVectors; ++v)
            sum[p][v] = first ? Floats{} : Policy::load(sums + p * stride + v * Policy::kLanes);
    }
    for (size_t k = 0; k < bytes; ++k, tables += 2 * 16 * 16)
        for (size_t p = 0; p < kSelectPixels; ++p) {
            const size_t byte = at[p][k];
            const float* low = tables + byte % 16 * 16;
            const float* high = tables + 16 * 16 + byte / 16 * 16;
            for (size_t v = 0; v < kVectors; ++v) sum[p][v] += Policy::load(low + v * Policy::kLanes);
            for (size_t v = 0; v < kVectors; ++v) sum[p][v] += Policy::load(high + v * Policy::kLanes);
        }
    for (size_t p = 0; p < kSelectPixels; ++p)
        for (size_t v = 0; v < kVectors; ++v)
            Policy::store(sums + p * stride + v * Policy::kLanes, sum[p][v]);
}

inline size_t select_items(const ConvShape& s) {
    return tiles_of(s.channels, kSelectChannels) * tiles_of(s.pixels(), kSelectTile);
}

// `copy` is the number of channels of one copy of the input: each copy starts on a byte.
template <typename Policy>
void select_item(const ConvShape& s, size_t copy, const uint8_t* padded, const float* weights,
                 const Epilogue& e, size_t item, uint8_t* scratch) {
    const size_t tiles = tiles_of(s.pixels(), kSelectTile), tile = tile_of(s.pixels(), kSelectTile);
    const size_t first_pixel = std::min(item % tiles * tile, s.pixels()),
                 pixels = std::min(tile, s.pixels() - first_pixel);
    const size_t first = item / tiles * kSelectChannels,
                 channels = std::min(s.channels - first, kSelectChannels);
    const size_t inputs = s.kh * s.kw * (s.unit / ((copy + 7) / 8)) * copy,
                 stride = (channels + 15) / 16 * 16;
    const size_t segment = s.segment(), slice = tile_of(segment, kSelectBytes);
    float* tables = reinterpret_cast<float*>(scratch);
    float* sums = tables + kSelectBytes * 2 * 16 * 16;  // [pixel][stride]

    const uint8_t* start[kSelectTile];  // the last ones again, up to a multiple of kSelectPixels
    Place place(s, first_pixel);
    for (size_t p = 0; p < pixels; ++p, place.next())
        start[p] = padded + (place.row() * s.padded_width() + place.column()) * s.unit;
    for (size_t p = pixels; p % kSelectPixels; ++p) start[p] = start[pixels - 1];

    for (size_t block = 0; block < channels; block += 16) {
        const float* w = weights + (first + block) * inputs;
        const size_t step = std::min<size_t>(16, channels - block);
        size_t channel = 0;  // of the copy
        for (size_t ky = 0; ky < s.kh; ++ky)
            for (size_t k = 0; k < segment; k += slice) {
                const size_t bytes = std::min(slice, segment - k);
                for (size_t i = 0; i < bytes; ++i) {
                    const size_t rows = std::min<size_t>(8, copy - channel);
                    make_tables<Policy>(w, step, rows, tables + i * 2 * 16 * 16);
                    w += rows * step;
                    channel = channel + rows < copy ? channel + rows : 0;
                }
                const size_t offset = ky * s.padded_width() * s.unit + k;
                for (size_t p = 0; p < pixels; p += kSelectPixels)
                    add_selected<Policy>(start + p, offset, bytes, tables, sums + p * stride + block, stride,
                                         ky == 0 && k == 0);
            }
    }
    finish_floats<Policy>(e, sums, stride, pixels, first_pixel, first, channels);
}
