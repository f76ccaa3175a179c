// Pooling and channel-wise steps, shared by all instruction sets and included inside each one's own
// namespace: plain loops over channels that the compiler turns into vectors.

struct Window {
    size_t y0, y1, x0, x1;
};

// The input pixels under an output pixel, clipped to the image.
inline Window window_of(const PoolShape& s, size_t row, size_t column) {
    const size_t y = row * s.sh, x = column * s.sw;
    return {y < s.ph ? 0 : y - s.ph, std::min(s.height, y + s.kh - s.ph), x < s.pw ? 0 : x - s.pw,
            std::min(s.width, x + s.kw - s.pw)};
}

template <typename Policy>
void max_pool_row(const PoolShape& s, const float* image, size_t row, float* out) {
    for (size_t column = 0; column < s.out_width; ++column, out += s.unit) {
        const Window w = window_of(s, row, column);
        const auto largest = [&](size_t c, auto load) {
            typename Policy::Floats most = load(image + (w.y0 * s.width + w.x0) * s.unit + c);
            for (size_t y = w.y0; y < w.y1; ++y)
                for (size_t x = w.x0; x < w.x1; ++x) {
                    const typename Policy::Floats in = load(image + (y * s.width + x) * s.unit + c);
                    most = in > most ? in : most;
                }
            return most;
        };
        size_t c = 0;
        for (; c + Policy::kLanes <= s.unit; c += Policy::kLanes)
            Policy::store(out + c, largest(c, Policy::load));
        if (const size_t n = s.unit - c)
            Policy::store_some(out + c, largest(c, [n](const float* p) { return Policy::load_some(p, n); }),
                               n);
    }
}

typedef uint64_t Bits32 __attribute__((vector_size(32)));

inline void or_pool_row(const PoolShape& s, const uint8_t* image, const uint8_t* flip, size_t row,
                        uint8_t* out) {
    for (size_t column = 0; column < s.out_width; ++column, out += s.unit) {
        const Window w = window_of(s, row, column);
        const auto any = [&](auto bits, size_t k) {  // of as many bytes as `bits` has, from k on
            std::memset(&bits, 0, sizeof bits);
            for (size_t y = w.y0; y < w.y1; ++y)
                for (size_t x = w.x0; x < w.x1; ++x) {
                    decltype(bits) in;
                    std::memcpy(&in, image + (y * s.width + x) * s.unit + k, sizeof in);
                    bits |= in;
                }
            if (flip) {
                decltype(bits) turned;
                std::memcpy(&turned, flip + k, sizeof turned);
                bits ^= turned;
            }
            std::memcpy(out + k, &bits, sizeof bits);
        };
        size_t k = 0;
        for (; k + 32 <= s.unit; k += 32) any(Bits32{}, k);
        for (; k + 8 <= s.unit; k += 8) any(uint64_t{}, k);
        if (k < s.unit && s.unit >= 8) any(uint64_t{}, s.unit - 8);
        for (; k < s.unit && s.unit < 8; ++k) any(uint8_t{}, k);
    }
}

// The divisor is the whole window, as in PyTorch with count_include_pad.
inline void average_pool_row(const PoolShape& s, const float* image, size_t row, float* out) {
    const float divisor = float(s.kh * s.kw);
    for (size_t column = 0; column < s.out_width; ++column, out += s.unit) {
        const Window w = window_of(s, row, column);
        std::memset(out, 0, s.unit * sizeof(float));
        for (size_t y = w.y0; y < w.y1; ++y)
            for (size_t x = w.x0; x < w.x1; ++x) {
                const float* __restrict in = image + (y * s.width + x) * s.unit;
                float* __restrict o = out;
                for (size_t c = 0; c < s.unit; ++c) o[c] += in[c];
            }
        for (size_t c = 0; c < s.unit; ++c) out[c] /= divisor;
    }
}

// Reads up to 15 floats after the input's last pixel: tensors have room for that.
template <typename Policy>
void pointwise(const float* input, const Epilogue& e, size_t first, size_t count) {
    finish_floats<Policy>(e, input + first * e.channels, e.channels, count, first, 0, e.channels);
}
