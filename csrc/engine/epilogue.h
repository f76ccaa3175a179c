// The last steps of a layer, shared by all instruction sets. Included inside each one's own namespace.
//
// A `Policy` gives: mask8(y, t) -> bit i is y[i] >= t[i], for 8 floats;
//                   mask32(counts, ones, t) -> bit i is 2 · counts[i] − ones >= t[i], for 32 counts.

// Where the sums come from: floats, or counts of bits with Σ a·w = 2 · count − ones.
struct FromFloats {
    const float* sums;
    Floats8 operator()(size_t c) const { return load(sums + c); }
};
struct FromCounts {
    const uint16_t* counts;
    int32_t ones;
    Floats8 operator()(size_t c) const {
        const Ints8 n = __builtin_convertvector(*reinterpret_cast<const Shorts8*>(counts + c), Ints8);
        return __builtin_convertvector(2 * n - ones, Floats8);
    }
};

// The channels [first, first + count) of one pixel; first is a multiple of 8, and `sums` may be read up to
// the next multiple of 8.
template <typename Policy, bool kScale, bool kResidual, bool kFloat, bool kBits, typename Sums>
inline void finish_steps(const Epilogue& e, const Sums& sums, size_t pixel, size_t first, size_t count) {
    const size_t copy_bytes = (e.channels + 7) / 8, all = e.channels * e.copies;
    const Floats8 floor = (e.relu ? 0.0f : -__builtin_inff()) + Floats8{};
    for (size_t copy = 0; copy < e.copies; ++copy) {
        const size_t base = copy * e.channels + first;
        const float* scale = kScale ? e.scale + base : nullptr;
        const float* bias = kScale ? e.bias + base : nullptr;
        const float* residual = kResidual ? e.residual + pixel * all + base : nullptr;
        const float* threshold = kBits ? e.threshold + base : nullptr;
        float* out = kFloat ? e.out_float + pixel * all + base : nullptr;
        uint8_t* bits = kBits ? e.out_bits + (pixel * e.copies + copy) * copy_bytes + first / 8 : nullptr;
        const uint8_t* flip = e.flip ? e.flip + copy * copy_bytes + first / 8 : nullptr;
        size_t c = 0;
        for (; c + 8 <= count; c += 8) {
            Floats8 y = sums(c);
            if (kScale) y = y * load(scale + c) + load(bias + c);
            if (kResidual) y += load(residual + c);
            y = y < floor ? floor : y;
            if (kFloat) store(out + c, y);
            if (kBits) bits[c / 8] = Policy::mask8(y, load(threshold + c)) ^ (flip ? flip[c / 8] : 0);
        }
        if (c == count) continue;
        const size_t n = count - c;
        Floats8 y = sums(c);
        if (kScale) y = y * load_some(scale + c, n) + load_some(bias + c, n);
        if (kResidual) y += load_some(residual + c, n);
        y = y < floor ? floor : y;
        if (kFloat) store_some(out + c, y, n);
        if (kBits) {  // the unused bits of the last byte stay zero
            const uint8_t mask = Policy::mask8(y, load_some(threshold + c, n)) ^ (flip ? flip[c / 8] : 0);
            bits[c / 8] = mask & uint8_t((1u << n) - 1);
        }
    }
}

template <typename Policy, typename Sums>
void finish_floats(const Epilogue& e, const Sums& sums, size_t pixel, size_t first, size_t count) {
    auto with_outputs = [&](auto scale, auto residual) {
        constexpr bool kScale = decltype(scale)::value, kResidual = decltype(residual)::value;
        if (e.out_float && e.out_bits)
            finish_steps<Policy, kScale, kResidual, true, true>(e, sums, pixel, first, count);
        else if (e.out_float)
            finish_steps<Policy, kScale, kResidual, true, false>(e, sums, pixel, first, count);
        else
            finish_steps<Policy, kScale, kResidual, false, true>(e, sums, pixel, first, count);
    };
    if (e.scale && e.residual)
        with_outputs(std::true_type{}, std::true_type{});
    else if (e.scale)
        with_outputs(std::true_type{}, std::false_type{});
    else if (e.residual)
        with_outputs(std::false_type{}, std::true_type{});
    else
        with_outputs(std::false_type{}, std::false_type{});
}

// counts[i] = popcount(activations & weights of channel first + i); `ones` = popcount(activations).
template <typename Policy>
inline void finish_counts(const Epilogue& e, const uint16_t* counts, int32_t ones, size_t pixel, size_t first,
                          size_t count) {
    if (!e.threshold32) {
        finish_floats<Policy>(e, FromCounts{counts, ones}, pixel, first, count);
        return;
    }
    const size_t copy_bytes = (e.channels + 7) / 8;
    for (size_t copy = 0; copy < e.copies; ++copy) {
        uint8_t* out = e.out_bits + (pixel * e.copies + copy) * copy_bytes + first / 8;
        const uint8_t* flip = e.flip ? e.flip + copy * copy_bytes + first / 8 : nullptr;
        const size_t base = copy * e.channels + first;
        for (size_t c = 0; c < count; c += 32) {
            const size_t n = count - c < 32 ? count - c : 32, bytes = (n + 7) / 8;
            uint32_t mask = 0, turned = 0;
            if (e.threshold16) {
                mask = Policy::mask32(counts + c, ones, e.threshold16 + base + c);
            } else {
                for (size_t i = 0; i < n; ++i)
                    mask |= uint32_t(2 * int32_t(counts[c + i]) - ones >= e.threshold32[base + c + i]) << i;
            }
            if (n == 32) {
                if (flip) std::memcpy(&turned, flip + c / 8, 4);
                mask ^= turned;
                std::memcpy(out + c / 8, &mask, 4);
            } else {
                if (flip) std::memcpy(&turned, flip + c / 8, bytes);
                mask = (mask ^ turned) & ((uint32_t(1) << n) - 1);
                std::memcpy(out + c / 8, &mask, bytes);
            }
        }
    }
}
