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

// Where the channels of one copy from `first` on lie, for pixel after pixel; null where a step is left out.
template <typename Steps>
struct CopyOf {
    const float *scale, *bias, *residual, *threshold;
    float* out;
    uint8_t* bits;
    const uint8_t* flip;
    CopyOf(Steps steps, const Epilogue& e, size_t copy, size_t pixel, size_t first) {
        const size_t base = copy * e.channels + first, copy_bytes = (e.channels + 7) / 8;
        scale = steps.scale ? e.scale + base : nullptr;
        bias = steps.scale ? e.bias + base : nullptr;
        residual = steps.residual ? e.residual + pixel * e.stride + base : nullptr;
        threshold = steps.bits ? e.threshold + base : nullptr;
        out = steps.floats ? e.out_float + pixel * e.stride + base : nullptr;
        bits = steps.bits ? e.out_bits + (pixel * e.copies + copy) * copy_bytes + first / 8 : nullptr;
        flip = steps.bits && e.flip ? e.flip + copy * copy_bytes + first / 8 : nullptr;
    }
};

// See finish_floats. Whole vectors of channels go pixel by pixel, as they lie in memory; for the last
// channels, which fill no vector, what all pixels share is loaded once.
template <typename Policy, typename Steps>
inline void finish_steps(Steps steps, const Epilogue& e, const float* sums, size_t apart, size_t pixels,
                         size_t pixel, size_t first, size_t count) {
    using Floats = typename Policy::Floats;
    constexpr size_t kLanes = Policy::kLanes;
    const Floats floor = (e.relu ? 0.0f : -__builtin_inff()) + Floats{};
    const size_t whole = count / kLanes * kLanes, n = count - whole;
    for (size_t p = 0; p < pixels; ++p)
        for (size_t copy = 0; whole && copy < e.copies; ++copy) {
            const CopyOf<Steps> at(steps, e, copy, pixel + p, first);
            for (size_t c = 0; c < whole; c += kLanes) {
                Floats y = Policy::load(sums + p * apart + c);
                if (steps.scale) y = y * Policy::load(at.scale + c) + Policy::load(at.bias + c);
                if (steps.residual) y += Policy::load(at.residual + c);
                y = y < floor ? floor : y;
                if (steps.floats) Policy::store(at.out + c, y);
                if (steps.bits) {
                    uint32_t mask = Policy::mask(y, Policy::load(at.threshold + c)), turned = 0;
                    if (at.flip) std::memcpy(&turned, at.flip + c / 8, kLanes / 8);
                    mask ^= turned;
                    std::memcpy(at.bits + c / 8, &mask, kLanes / 8);
                }
            }
        }
    for (size_t copy = 0; n && copy < e.copies; ++copy) {
        const CopyOf<Steps> at(steps, e, copy, pixel, first + whole);
        const Floats scale = steps.scale ? Policy::load_some(at.scale, n) : Floats{};
        const Floats bias = steps.scale ? Policy::load_some(at.bias, n) : Floats{};
        const Floats threshold = steps.bits ? Policy::load_some(at.threshold, n) : Floats{};
        const size_t bytes = (n + 7) / 8, pixel_bytes = e.copies * ((e.channels + 7) / 8);
        uint32_t turned = 0;
        if (at.flip) std::memcpy(&turned, at.flip, bytes);
        for (size_t p = 0; p < pixels; ++p) {
            Floats y = Policy::load(sums + p * apart + whole);
            if (steps.scale) y = y * scale + bias;
            if (steps.residual) y += Policy::load_some(at.residual + p * e.stride, n);
            y = y < floor ? floor : y;
            if (steps.floats) Policy::store_some(at.out + p * e.stride, y, n);
            if (steps.bits) {  // the unused bits of the last byte stay zero
                const uint32_t mask = (Policy::mask(y, threshold) ^ turned) & ((1u << n) - 1);
                std::memcpy(at.bits + p * pixel_bytes, &mask, bytes);
            }
        }
    }
}

// The last steps of the channels [first, first + count) of `pixels` neighbours from `pixel` on, whose sums
// lie `apart` floats from each other; first is a multiple of 16, and sums may be read up to the next multiple
// of 16.
template <typename Policy>
void finish_floats(const Epilogue& e, const float* sums, size_t apart, size_t pixels, size_t pixel,
                   size_t first, size_t count) {
    const auto finish = [&](auto steps) {
        finish_steps<Policy>(steps, e, sums, apart, pixels, pixel, first, count);
    };
    const auto with_outputs = [&](auto residual) {
        constexpr bool kResidual = decltype(residual)::value;
        if (e.out_float && e.out_bits)
            finish(KnownSteps<true, kResidual, true, true>{});
        else if (e.out_float)
            finish(KnownSteps<true, kResidual, true, false>{});
        else
            finish(KnownSteps<true, kResidual, false, true>{});
    };
    if constexpr (!Policy::kOneEpilogue) {  // the steps that most layers have
        if (e.scale && e.residual) return with_outputs(std::true_type{});
        if (e.scale) return with_outputs(std::false_type{});
        if (!e.residual && !e.out_float) return finish(KnownSteps<false, false, false, true>{});
    }
    finish(
        AnySteps{e.scale != nullptr, e.residual != nullptr, e.out_float != nullptr, e.out_bits != nullptr});
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
        finish_floats<Policy>(e, sums, 0, 1, pixel, first, count);
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
