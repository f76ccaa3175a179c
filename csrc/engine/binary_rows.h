// What binary convolutions of all instruction sets share: rows with their zero frame, and the ones in them.
// Included inside each set's own namespace.

// One padded row: the input's, between zeros; or zeros alone above and below an image.
inline void pad_row(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* out) {
    const size_t image = row / s.padded_height(), y = row % s.padded_height();
    if (y < s.ph || y >= s.ph + s.height) {
        std::memset(out, 0, s.padded_width() * s.unit);
        return;
    }
    std::memset(out, 0, s.pw * s.unit);
    out += s.pw * s.unit;
    std::memcpy(out, input + (image * s.height + (y - s.ph)) * s.width * s.unit, s.width * s.unit);
    std::memset(out + s.width * s.unit, 0, s.pw * s.unit);
}

// The ones under one row of the kernel, from each column of a padded row on: an output pixel adds up kh of
// them. Up to 7 bytes after the input are read.
inline void count_ones(const ConvShape& s, const uint8_t* input, size_t row, uint16_t* ones) {
    const size_t image = row / s.padded_height(), y = row % s.padded_height();
    std::memset(ones, 0, s.padded_width() * sizeof(uint16_t));
    if (y < s.ph || y >= s.ph + s.height) return;
    const uint8_t* in = input + (image * s.height + (y - s.ph)) * s.width * s.unit;
    const uint64_t last = (uint64_t(1) << s.unit % 8 * 8) - 1;
    for (size_t x = s.pw; x < s.pw + s.width; ++x, in += s.unit) {
        uint64_t word;
        uint32_t total = 0;
        size_t k = 0;
        for (; k + 8 <= s.unit; k += 8) {
            std::memcpy(&word, in + k, 8);
            total += uint32_t(__builtin_popcountll(word));
        }
        if (k < s.unit) {
            std::memcpy(&word, in + k, 8);
            total += uint32_t(__builtin_popcountll(word & last));
        }
        ones[x] = uint16_t(total);
    }
    for (size_t x = 0; x + s.kw <= s.padded_width(); ++x)
        for (size_t kx = 1; kx < s.kw; ++kx) ones[x] = uint16_t(ones[x] + ones[x + kx]);
}

inline int32_t ones_under(const ConvShape& s, const uint16_t* counts, size_t row, size_t x) {
    int32_t total = 0;
    for (size_t ky = 0; ky < s.kh; ++ky) total += counts[(row + ky) * s.padded_width() + x];
    return total;
}

// Of `pixels` output pixels from `pixel` on: where the window of each starts in the stream, which holds
// `bytes` of a pixel, and how many ones are in it.
inline void find_windows(const ConvShape& s, const uint8_t* stream, size_t bytes, const uint16_t* counts,
                         size_t pixel, size_t pixels, const uint8_t** windows, int32_t* ones) {
    Place place(s, pixel);
    for (size_t p = 0; p < pixels;) {
        const size_t start = place.row() * s.padded_width() + place.column();
        const size_t here = std::min(pixels - p, s.out_width - place.column() / s.sw);
        for (size_t i = 0; i < here; ++i)
            windows[p + i] = stream + (start + i * s.sw) * bytes, ones[p + i] = 0;
        for (size_t ky = 0; ky < s.kh; ++ky) {
            const uint16_t* row = counts + start + ky * s.padded_width();
            for (size_t i = 0; i < here; ++i) ones[p + i] += row[i * s.sw];
        }
        p += here;
        place.next_row();
    }
}
