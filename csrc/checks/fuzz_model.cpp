// A coverage-guided fuzz target for the native reader and executor, with the sanitizers:
//     clang++ -g -O1 -std=c++17 -fsanitize=fuzzer,address,undefined … (see tests/engine/test_fuzzing.py)
// The input is the three parts that Python hands over after the checksums: u16 tensors, u16 operations, then
// the tables and the data. A program that is accepted and small enough is also run.
#include <cstring>
#include <stdexcept>
#include <vector>

#include "../engine/model.h"

using namespace binaryduo;

namespace {

// Bounds the work of one input, not the correctness: sums that would take too long are not run.
double products(const Program& program) {
    double total = 0;
    for (const Op& op : program.ops) {
        const Tensor& in = program.tensors[op.input];
        const Tensor& out = program.tensors[op.out_float >= 0 ? op.out_float : op.out_bits];
        total += double(out.pixels()) * out.channels * op.kh * op.kw * in.channels +
                 double(in.pixels()) * in.channels;
    }
    return total;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    if (size < 4) return 0;
    uint16_t counts[2];
    std::memcpy(counts, bytes, 4);
    const size_t tensors = counts[0] % 64 * kTensorRecord, ops = counts[1] % 64 * kOpRecord;
    if (size - 4 < tensors + ops) return 0;
    // Copies of exact length, so that the sanitizer sees every byte read too far.
    const std::vector<uint8_t> tensor_table(bytes + 4, bytes + 4 + tensors);
    const std::vector<uint8_t> op_table(bytes + 4 + tensors, bytes + 4 + tensors + ops);
    const std::vector<uint8_t> data(bytes + 4 + tensors + ops, bytes + size);
    try {
        Program program =
            read_program(tensor_table.data(), tensors, op_table.data(), ops, data.data(), data.size());
        if (program.arena_bytes > (1 << 22) || products(program) > 1e8) return 0;
        const Tensor in = program.tensors[program.input], out = program.tensors[program.output];
        duo_options options{};
        options.threads = 1;
        const Model model(std::move(program), options);
        if (model.arena_bytes() > (size_t(1) << 28)) return 0;
        std::vector<uint8_t> arena(model.arena_bytes(), 0xFF);
        std::vector<float> images(3 * in.pixels() * in.channels, 0.5f),
            result(3 * out.pixels() * out.channels);
        model.run(images.data(), 3, result.data(), arena.data(), nullptr, nullptr);
    } catch (const std::invalid_argument&) {
    }
    return 0;
}
