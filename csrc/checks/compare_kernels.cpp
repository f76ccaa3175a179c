// Compares an instruction set with the scalar reference on random layers, bit by bit. Built and run by
// tests/engine/test_instruction_sets.py for sets that this CPU lacks: AVX-512 through SIMDe, NEON in qemu,
// WebAssembly in Node.
//     compare_kernels avx2|avx512|avx512vbmi|neon|wasm [cases]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../engine/kernels.h"

using namespace binaryduo;

namespace {

std::mt19937 rng(7);
size_t pick(size_t low, size_t high) { return low + rng() % (high - low + 1); }

// Memory that starts at 64 bytes and has room after it, as the executor's has.
template <typename T>
struct Memory {
    std::vector<T> values;
    T* data;
    explicit Memory(size_t n) : values(n + 256) {
        data = values.data();
        while (reinterpret_cast<uintptr_t>(data) % 64) ++data;
    }
};

template <typename T>
void fill(Memory<T>& memory, size_t n) {
    for (size_t i = 0; i < n; ++i) memory.data[i] = T(rng());
}

void fill(Memory<float>& memory, size_t n) {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < n; ++i) memory.data[i] = normal(rng);
}

struct Results {
    std::vector<uint8_t> bits;
    std::vector<float> floats;
};

struct Case {
    ConvShape s;
    bool binary, bytes, select, integers, scaled, added, relu;
    size_t copies, copy;  // of the output; channels of a copy of the input whose bits select
};

// Channels around the borders of bytes, words, groups of six and blocks.
const size_t kWidths[] = {1, 3, 31, 32, 33, 63, 64, 65, 90, 128, 180, 192, 250, 256, 257, 360, 513};

Case random_case() {
    Case c{};
    ConvShape& s = c.s;
    c.binary = rng() % 4 != 0;
    c.bytes = !c.binary && rng() % 2;               // 8-bit weights instead of floats
    c.select = !c.binary && !c.bytes && rng() % 2;  // floats on bits
    s.images = pick(1, 2);
    s.kh = pick(1, 5), s.kw = pick(1, 5), s.sh = pick(1, 2), s.sw = pick(1, 2);
    if (rng() % 2) s.kh = s.kw = rng() % 2 ? 3 : 1;  // what networks have
    s.ph = pick(0, s.kh - 1), s.pw = pick(0, s.kw - 1);
    s.height = pick(s.kh, s.kh + 9), s.width = pick(s.kw, s.kw + 9);
    const size_t width = kWidths[rng() % (sizeof kWidths / sizeof *kWidths)];
    s.unit = c.binary ? (rng() % 2 ? (width + 7) / 8 : pick(1, 40)) : pick(1, 20);
    if (c.select) {
        c.copy = rng() % 2 ? width : pick(1, 40);
        s.unit = pick(1, 3) * ((c.copy + 7) / 8);
    }
    s.out_height = (s.padded_height() - s.kh) / s.sh + 1;
    s.out_width = (s.padded_width() - s.kw) / s.sw + 1;
    s.channels = rng() % 2 ? kWidths[rng() % (sizeof kWidths / sizeof *kWidths)] : pick(1, 150);
    c.integers = c.binary && rng() % 2;
    c.scaled = rng() % 2, c.added = rng() % 2, c.relu = rng() % 2;
    c.copies = pick(1, 3);
    return c;
}

struct Data {
    Memory<uint8_t> input, weights, flip;
    Memory<float> floats, float_weights, scale, bias, residual, threshold;
    Memory<int32_t> threshold32, half_threshold[2];
    Memory<int16_t> threshold16;

    static size_t inputs(const Case& c) {  // of a sum, counted like the weights; a byte of bits has at most 8
        return c.s.kh * c.s.segment() * (c.select ? 8 : 1);
    }

    explicit Data(const Case& c)
        : input(c.s.images * c.s.height * c.s.width * c.s.unit),
          weights(c.s.kh * c.s.segment() * c.s.channels),
          flip(c.copies * ((c.s.channels + 7) / 8)),
          floats(c.s.images * c.s.padded_height() * c.s.padded_width() * c.s.unit),
          float_weights(inputs(c) * c.s.channels),
          scale(c.copies * c.s.channels),
          bias(c.copies * c.s.channels),
          residual(c.s.pixels() * c.copies * c.s.channels),
          threshold(c.copies * c.s.channels),
          threshold32(c.copies * c.s.channels),
          half_threshold{Memory<int32_t>(c.copies * c.s.channels), Memory<int32_t>(c.copies * c.s.channels)},
          threshold16(c.copies * c.s.channels) {
        const ConvShape& s = c.s;
        const size_t all = c.copies * s.channels;
        fill(input, s.images * s.height * s.width * s.unit);
        fill(weights, s.kh * s.segment() * s.channels);
        fill(flip, c.copies * ((s.channels + 7) / 8));
        fill(floats, s.images * s.padded_height() * s.padded_width() * s.unit);
        fill(float_weights, inputs(c) * s.channels);
        fill(scale, all);
        fill(bias, all);
        fill(residual, s.pixels() * all);
        fill(threshold, all);
        for (size_t i = 0; i < all; ++i)
            threshold16.data[i] = int16_t(threshold32.data[i] = int32_t(rng() % 61) - 30);
        for (size_t i = 0; i < all; ++i)
            for (int odd : {0, 1}) half_threshold[odd].data[i] = (threshold32.data[i] + odd + 1) >> 1;
    }
};

Results run(const Kernels& k, const Case& c, const Data& d) {
    const ConvShape& s = c.s;
    const size_t all = c.copies * s.channels, row = c.copies * ((s.channels + 7) / 8);
    Results r{std::vector<uint8_t>(s.pixels() * row), std::vector<float>(s.pixels() * all)};
    Epilogue e{};
    e.channels = s.channels, e.copies = c.copies, e.stride = all, e.flip = d.flip.data,
    e.out_bits = r.bits.data();
    if (c.integers) {
        e.threshold32 = d.threshold32.data, e.threshold16 = d.threshold16.data;
        for (int odd : {0, 1}) e.half_threshold[odd] = d.half_threshold[odd].data;
    } else {
        e.threshold = d.threshold.data, e.out_float = r.floats.data(), e.relu = c.relu;
        if (c.scaled) e.scale = d.scale.data, e.bias = d.bias.data;
        if (c.added) e.residual = d.residual.data;
    }
    Memory<uint8_t> scratch(std::max(k.scratch_bytes(s), k.select_scratch));
    if (c.select) {  // any bits: those that a copy does not use select what every set makes the same way
        for (size_t item = 0; item < k.select_items(s); ++item)
            k.select_item(s, c.copy, reinterpret_cast<const uint8_t*>(d.floats.data), d.float_weights.data, e,
                          item, scratch.data);
        return r;
    }
    if (c.bytes) {
        Memory<uint8_t> weights(k.byte_weight_bytes(s));
        k.prepare_byte_weights(s, reinterpret_cast<const int8_t*>(d.weights.data), weights.data);
        for (size_t item = 0; item < k.byte_items(s); ++item)
            k.byte_item(s, reinterpret_cast<const uint8_t*>(d.floats.data), weights.data, e, item);
        return r;
    }
    if (!c.binary) {
        for (size_t item = 0; item < k.float_items(s); ++item)
            k.float_item(s, d.floats.data, d.float_weights.data, e, item, scratch.data);
        return r;
    }
    Memory<uint8_t> stream(k.stream_bytes(s)), weights(k.weight_bytes(s));
    k.prepare_weights(s, d.weights.data, weights.data);
    const uint8_t* prepared = k.weight_bytes(s) ? weights.data : d.weights.data;
    Memory<uint16_t> counts(s.images * s.padded_height() * s.padded_width());
    for (size_t i = 0; i < s.images * s.padded_height(); ++i)
        k.prepare_row(s, d.input.data, i, stream.data, counts.data, scratch.data);
    for (size_t item = 0; item < k.binary_items(s); ++item)
        k.binary_item(s, stream.data, counts.data, prepared, e, item, scratch.data);
    return r;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    const Kernels* kernels = name == "amx"          ? kernels_amx()
                             : name == "avx512vbmi" ? kernels_avx512vbmi()
                             : name == "avx512"     ? kernels_avx512()
                             : name == "neon"       ? kernels_neon()
                             : name == "wasm"       ? kernels_wasm()
                                                    : kernels_avx2();
    if (!kernels || name != kernels->name) {
        std::printf("%s is not built in\n", name.c_str());
        return 2;
    }
    const int cases = argc > 2 ? std::atoi(argv[2]) : 300;
    for (int i = 0; i < cases; ++i) {
        const Case c = random_case();
        const Data d(c);
        const Results wanted = run(*kernels_scalar(), c, d), found = run(*kernels, c, d);
        // A binary layer's bits come from exact integers; a multiply-add fused or not may turn a float one.
        // WebAssembly fuses nothing, and neither does its scalar reference; where bits select weights there
        // is nothing to fuse.
        const bool unfused = name == "wasm" || (c.select && !c.scaled);
        const bool exact = c.integers || unfused || (c.bytes && !c.scaled);
        size_t wrong = 0;
        for (size_t j = 0; j < wanted.floats.size(); ++j)
            wrong += unfused ? found.floats[j] != wanted.floats[j]
                             : !(std::fabs(found.floats[j] - wanted.floats[j]) <=
                                 1e-3f * (1 + std::fabs(wanted.floats[j])));
        size_t bits = 0;
        for (size_t j = 0; j < wanted.bits.size(); ++j)
            bits += size_t(__builtin_popcount(unsigned(wanted.bits[j] ^ found.bits[j])));
        if (wrong || bits > (exact ? 0 : wanted.bits.size() / 500 + 1)) {
            std::printf("case %d: %zu floats and %zu bits of %s differ from the scalar reference\n", i, wrong,
                        bits, name.c_str());
            return 1;
        }
    }
    std::printf("%s agrees with the scalar reference on %d random layers\n", name.c_str(), cases);
    return 0;
}
