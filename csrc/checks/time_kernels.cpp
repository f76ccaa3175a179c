// Times binary layers of each instruction set, without Python around them: rows and products apart.
//     g++ -O3 -std=c++17 … (see csrc/engine/README.md);  time_kernels [set …]
// Processor time of one thread, the best of many rounds.
//     time_kernels -n ROUNDS SET CHANNELS SIZE KERNEL
// runs one layer ROUNDS times: an emulator that counts instructions gives those of one run as the difference
// between two numbers of rounds (csrc/engine/README.md).
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../common/buffer.h"
#include "../engine/kernels.h"

using namespace binaryduo;

namespace {

double seconds() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

int rounds = 30, repeats = 10;

template <typename Work>
double best(Work work) {
    double least = 1e9;
    for (int round = 0; round < rounds; ++round) {
        const double start = seconds();
        for (int i = 0; i < repeats; ++i) work();
        least = std::min(least, (seconds() - start) / repeats);
    }
    return least;
}

void time_layer(const Kernels& k, size_t channels, size_t size, size_t kernel) {
    const size_t unit = (channels + 7) / 8, p = kernel / 2;
    const ConvShape s{1, size, size, unit, kernel, kernel, 1, 1, p, p, size, size, channels};
    std::mt19937 rng(1);
    auto random = [&](size_t n) {
        Buffer<uint8_t> bytes = zeros<uint8_t>(n);
        for (size_t i = 0; i < n; ++i) bytes[i] = uint8_t(rng());
        return bytes;
    };
    const Buffer<uint8_t> input = random(size * size * unit), file = random(kernel * s.segment() * channels);
    const Buffer<uint8_t> stream = zeros<uint8_t>(k.stream_bytes(s)),
                          scratch = zeros<uint8_t>(k.scratch_bytes(s));
    const Buffer<uint8_t> weights = zeros<uint8_t>(k.weight_bytes(s)),
                          out = zeros<uint8_t>(size * size * unit);
    const Buffer<uint16_t> counts = zeros<uint16_t>(s.padded_height() * s.padded_width());
    const Buffer<int32_t> threshold = zeros<int32_t>(channels);
    const Buffer<int16_t> threshold16 = zeros<int16_t>(channels);
    k.prepare_weights(s, file.get(), weights.get());
    Epilogue e{};
    e.channels = e.stride = channels, e.copies = 1, e.out_bits = out.get();
    e.threshold32 = e.half_threshold[0] = e.half_threshold[1] = threshold.get(),
    e.threshold16 = threshold16.get();
    const double rows = best([&] {
        for (size_t row = 0; row < s.padded_height(); ++row)
            k.prepare_row(s, input.get(), row, stream.get(), counts.get(), scratch.get());
    });
    const double items = best([&] {
        for (size_t item = 0; item < k.binary_items(s); ++item)
            k.binary_item(s, stream.get(), counts.get(), k.weight_bytes(s) ? weights.get() : file.get(), e,
                          item, scratch.get());
    });
    const double products = double(s.pixels()) * double(channels * channels * kernel * kernel);
    std::printf(
        "%-11s %zu×%zu %4zu channels, %2zu² pixels: rows %6.1f us, products %6.1f us, %5.0f GMAC/s (%s)\n",
        k.name, kernel, kernel, channels, size, rows * 1e6, items * 1e6, products / (rows + items) / 1e9,
        k.binary_kernel(s));
}

}  // namespace

int main(int argc, char** argv) {
    instruction_sets();  // asks the system for AMX
    const size_t layers[][3] = {{64, 56, 3},  {128, 28, 3}, {256, 14, 3}, {512, 7, 3}, {45, 56, 3},
                                {90, 56, 3},  {180, 28, 3}, {360, 14, 3}, {32, 14, 3}, {64, 28, 1},
                                {256, 14, 1}, {512, 7, 1},  {1024, 4, 1}};
    const bool counting = argc == 7 && argv[1] == std::string("-n");
    if (counting) rounds = std::atoi(argv[2]), repeats = 1;
    for (const auto& layer : layers)
        for (const Kernels* k : {kernels_amx(), kernels_avx512vbmi(), kernels_avx512(), kernels_avx2(),
                                 kernels_neon(), kernels_wasm()}) {
            if (counting) {
                if (k && argv[3] == std::string(k->name) && &layer == layers)
                    time_layer(*k, std::atoi(argv[4]), std::atoi(argv[5]), std::atoi(argv[6]));
                continue;
            }
            bool wanted = k && argc == 1;
            for (int i = 1; i < argc; ++i) wanted |= k && std::string(argv[i]) == k->name;
            if (wanted) time_layer(*k, layer[0], layer[1], layer[2]);
        }
}
