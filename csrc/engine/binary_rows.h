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
