// The last steps of a layer, shared by all instruction sets. Included inside each one's own namespace, so
// that the compiler builds it with that set's instructions and the linker never mixes them.
//
// `Simd` gives: mask8(y, t) -> bit i is y[i] >= t[i], for 8 floats;
//               mask32(counts, ones, t) -> bit i is 2 · counts[i] − ones >= t[i], for 32 counts.

template <typename Simd>
inline void store_mask(uint8_t* out, const uint8_t* flip, size_t byte, uint8_t mask, size_t left) {
    if (flip) mask ^= flip[byte];
    if (left < 8) mask &= uint8_t((1u << left) - 1);  // the unused bits of the last byte stay zero
    out[byte] = mask;
}

// Sums x of the channels [first, first + count) of one pixel; first is a multiple of 32.
template <typename Simd>
void finish_floats(const Epilogue& e, const float* x, size_t pixel, size_t first, size_t count) {
    const size_t copy_bytes = (e.channels + 7) / 8, all = e.channels * e.copies;
    for (size_t copy = 0; copy < e.copies; ++copy) {
        const size_t base = copy * e.channels + first;
        const float* scale = e.scale ? e.scale + base : nullptr;
        const float* bias = e.bias ? e.bias + base : nullptr;
        const float* residual = e.residual ? e.residual + pixel * all + base : nullptr;
        float* out = e.out_float ? e.out_float + pixel * all + base : nullptr;
        for (size_t c = 0; c < count; c += 8) {
            const size_t n = count - c < 8 ? count - c : 8;
            alignas(32) float y[8] = {}, t[8] = {};
            if (n == 8) {
                for (size_t i = 0; i < 8; ++i) y[i] = x[c + i];
                if (scale)
                    for (size_t i = 0; i < 8; ++i) y[i] = y[i] * scale[c + i] + bias[c + i];
                if (residual)
                    for (size_t i = 0; i < 8; ++i) y[i] += residual[c + i];
                if (e.relu)
                    for (size_t i = 0; i < 8; ++i) y[i] = y[i] < 0 ? 0 : y[i];
                if (out)
                    for (size_t i = 0; i < 8; ++i) out[c + i] = y[i];
            } else {
                for (size_t i = 0; i < n; ++i) {
                    y[i] = x[c + i];
                    if (scale) y[i] = y[i] * scale[c + i] + bias[c + i];
                    if (residual) y[i] += residual[c + i];
                    if (e.relu) y[i] = y[i] < 0 ? 0 : y[i];
                    if (out) out[c + i] = y[i];
                }
            }
            if (!e.out_bits) continue;
            std::memcpy(t, e.threshold + base + c, n * sizeof(float));
            store_mask<Simd>(e.out_bits + pixel * e.copies * copy_bytes,
                             e.flip, copy * copy_bytes + (first + c) / 8, Simd::mask8(y, t), n);
        }
    }
}

// counts[i] = popcount(activations & weights of channel first + i); `ones` = popcount(activations).
// `counts` has room for a multiple of 32; `floats` is scratch of the same length.
template <typename Simd>
void finish_counts(const Epilogue& e, const uint16_t* counts, int32_t ones, size_t pixel, size_t first,
                   size_t count, float* floats) {
    if (!e.threshold32) {
        for (size_t i = 0; i < count; ++i) floats[i] = float(2 * int32_t(counts[i]) - ones);
        finish_floats<Simd>(e, floats, pixel, first, count);
        return;
    }
    const size_t copy_bytes = (e.channels + 7) / 8;
    for (size_t copy = 0; copy < e.copies; ++copy) {
        uint8_t* out = e.out_bits + pixel * e.copies * copy_bytes;
        for (size_t c = 0; c < count; c += 32) {
            const size_t at = copy * e.channels + first + c, n = count - c < 32 ? count - c : 32;
            uint32_t mask = 0;
            if (e.threshold16) {
                mask = Simd::mask32(counts + c, ones, e.threshold16 + at);
            } else {
                for (size_t i = 0; i < n; ++i)
                    mask |= uint32_t(2 * int32_t(counts[c + i]) - ones >= e.threshold32[at + i]) << i;
            }
            for (size_t i = 0; i < n; i += 8)
                store_mask<Simd>(out, e.flip, copy * copy_bytes + (first + c + i) / 8, uint8_t(mask >> i), n - i);
        }
    }
}
