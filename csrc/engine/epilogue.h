// The last steps of a layer, shared by all instruction sets. Included inside each one's own namespace.
//
// A `Policy` gives: Floats, kLanes, load, store, load_some, store_some, from_counts as Lanes8 does;
//                   mask(y, t) -> bit i is y[i] >= t[i], for kLanes floats;
//                   kOneEpilogue: small code is worth more than speed;
//                   mask32(counts, ones, t) -> bit i is 2 · counts[i] − ones >= t[i], for 32 counts.

// Which steps a layer has: known to the compiler, one function for each set of steps; or looked at in one.
template <bool kScale, bool kResidual, bool kFloats, bool kBits>
struct KnownSteps {
    static constexpr bool scale = kScale, residual = kResidual, floats = kFloats, bits = kBits;
};
struct AnySteps {
    bool scale, residual, floats, bits;
};

// The channels [first, first + count) of one pixel; first is a multiple of 16, and `sums` may be read up to
// the next multiple of 16.
template <typename Policy, typename Steps>
inline void finish_steps(Steps steps, const Epilogue& e, const float* sums, size_t pixel, size_t first,
                         size_t count) {
    using Floats = typename Policy::Floats;
    constexpr size_t kLanes = Policy::kLanes;
    const size_t copy_bytes = (e.channels + 7) / 8, all = e.stride;
    const Floats floor = (e.relu ? 0.0f : -__builtin_inff()) + Floats{};
    for (size_t copy = 0; copy < e.copies; ++copy) {
        const size_t base = copy * e.channels + first;
        const float* scale = steps.scale ? e.scale + base : nullptr;
        const float* bias = steps.scale ? e.bias + base : nullptr;
        const float* residual = steps.residual ? e.residual + pixel * all + base : nullptr;
        const float* threshold = steps.bits ? e.threshold + base : nullptr;
        float* out = steps.floats ? e.out_float + pixel * all + base : nullptr;
        uint8_t* bits =
            steps.bits ? e.out_bits + (pixel * e.copies + copy) * copy_bytes + first / 8 : nullptr;
        const uint8_t* flip = e.flip ? e.flip + copy * copy_bytes + first / 8 : nullptr;
        size_t c = 0;
        for (; c + kLanes <= count; c += kLanes) {
            Floats y = Policy::load(sums + c);
            if (steps.scale) y = y * Policy::load(scale + c) + Policy::load(bias + c);
            if (steps.residual) y += Policy::load(residual + c);
            y = y < floor ? floor : y;
            if (steps.floats) Policy::store(out + c, y);
            if (steps.bits) {
                uint32_t mask = Policy::mask(y, Policy::load(threshold + c)), turned = 0;
                if (flip) std::memcpy(&turned, flip + c / 8, kLanes / 8);
                mask ^= turned;
                std::memcpy(bits + c / 8, &mask, kLanes / 8);
            }
        }
        if (c == count) continue;
        const size_t n = count - c;
        Floats y = Policy::load(sums + c);
        if (steps.scale) y = y * Policy::load_some(scale + c, n) + Policy::load_some(bias + c, n);
        if (steps.residual) y += Policy::load_some(residual + c, n);
        y = y < floor ? floor : y;
        if (steps.floats) Policy::store_some(out + c, y, n);
        if (steps.bits) {  // the unused bits of the last byte stay zero
            uint32_t mask = Policy::mask(y, Policy::load_some(threshold + c, n)), turned = 0;
            if (flip) std::memcpy(&turned, flip + c / 8, (n + 7) / 8);
            mask = (mask ^ turned) & ((1u << n) - 1);
            std::memcpy(bits + c / 8, &mask, (n + 7) / 8);
        }
    }
}

template <typename Policy>
void finish_floats(const Epilogue& e, const float* sums, size_t pixel, size_t first, size_t count) {
    if constexpr (Policy::kOneEpilogue) {
        const AnySteps steps{e.scale != nullptr, e.residual != nullptr, e.out_float != nullptr,
                             e.out_bits != nullptr};
        return finish_steps<Policy>(steps, e, sums, pixel, first, count);
    }
    auto with_outputs = [&](auto scale, auto residual) {
        constexpr bool kScale = decltype(scale)::value, kResidual = decltype(residual)::value;
        const auto finish = [&](auto steps) { finish_steps<Policy>(steps, e, sums, pixel, first, count); };
        if (e.out_float && e.out_bits)
            finish(KnownSteps<kScale, kResidual, true, true>{});
        else if (e.out_float)
            finish(KnownSteps<kScale, kResidual, true, false>{});
        else
            finish(KnownSteps<kScale, kResidual, false, true>{});
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

// counts[i] = popcount(activations & weights of channel first + i); `ones` = popcount(activations). As many
// counts as Policy::kBlocks blocks of 32 have may be read.
template <typename Policy>
inline void finish_counts(const Epilogue& e, const uint16_t* counts, int32_t ones, size_t pixel, size_t first,
                          size_t count) {
    if (!e.threshold32) {
        alignas(64) float sums[32 * Policy::kBlocks];
        for (size_t c = 0; c < count; c += Policy::kLanes)
            Policy::store(sums + c, Policy::from_counts(counts + c, ones));
        finish_floats<Policy>(e, sums, pixel, first, count);
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
