// A coverage-guided fuzz target for the C API, with the sanitizers:
//     clang++ -g -O1 -std=c++17 -fsanitize=fuzzer,address,undefined … (see tests/engine/test_fuzzing.py)
// The input is what checksums would hide from a fuzzer: u16 tensors, u16 operations, then the tables and the
// data. A file is made of them; where it is accepted and small enough, it is also run. The same input as it
// is, without a header of ours, must be refused.
#include <cstring>
#include <stdexcept>
#include <vector>

#include "../engine/program.h"
#include "../include/duo.h"

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

uint32_t crc32(const uint8_t* p, size_t bytes) {
    uint32_t crc = ~0u;
    for (; bytes; --bytes) {
        crc ^= *p++;
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

// The bytes of a file with these sections, see docs/format.md.
std::vector<uint8_t> file_of(const std::vector<uint8_t> (&sections)[4]) {
    std::vector<uint8_t> file(192);
    const auto put = [&](size_t at, auto value) { std::memcpy(&file[at], &value, sizeof value); };
    std::memcpy(file.data(),
                "\x89"
                "DUO\r\n\x1a\n",
                8);
    std::memcpy(&file[24], "TENS", 4), std::memcpy(&file[56], "OPER", 4);
    std::memcpy(&file[88], "META", 4), std::memcpy(&file[120], "DATA", 4);
    put(8, uint32_t(1)), put(12, uint32_t(4));
    for (size_t i = 0; i < 4; ++i) {
        const size_t start = file.size(), used = sections[i].size();
        file.insert(file.end(), sections[i].begin(), sections[i].end());
        file.resize((file.size() + 63) / 64 * 64);
        put(28 + 32 * i, crc32(&file[start], file.size() - start));
        put(32 + 32 * i, uint64_t(start)), put(40 + 32 * i, uint64_t(file.size() - start));
        put(48 + 32 * i, uint64_t(used));
    }
    put(16, uint64_t(file.size()));
    put(188, crc32(file.data(), 188));
    return file;
}

void run(const duo_model* model) {
    duo_tensor in, out;
    duo_error error;
    if (duo_input(model, 0, &in, &error)) __builtin_trap();
    std::vector<std::vector<float>> results;
    std::vector<void*> outputs;
    for (size_t i = 0; i < duo_outputs(model); ++i) {
        if (duo_output(model, i, &out, &error)) __builtin_trap();
        results.emplace_back(3 * out.bytes / sizeof(float));
        outputs.push_back(results.back().data());
    }
    std::vector<uint8_t> arena(duo_arena_bytes(model), 0xFF);
    std::vector<float> images(3 * in.bytes / sizeof(float), 0.5f);
    const void* inputs[] = {images.data()};
    if (duo_run(model, 3, inputs, outputs.data(), arena.data(), arena.size(), &error)) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    if (size < 4) return 0;
    uint16_t counts[2];
    std::memcpy(counts, bytes, 4);
    const size_t tensors = counts[0] % 64 * kTensorRecord, ops = counts[1] % 64 * kOpRecord;
    if (size - 4 < tensors + ops) return 0;
    const uint8_t *op_table = bytes + 4 + tensors, *data = op_table + ops;
    const std::vector<uint8_t> sections[4] = {
        {bytes + 4, op_table}, {op_table, data}, {'{', '}'}, {data, bytes + size}};
    // Copies of exact length, so that the sanitizer sees every byte read too far.
    const std::vector<uint8_t> file = file_of(sections), raw(bytes, bytes + size);
    try {
        const Program program = read_program(sections[0].data(), tensors, sections[1].data(), ops,
                                             sections[3].data(), sections[3].size());
        if (program.arena_bytes > (1 << 22) || products(program) > 1e8) return 0;
    } catch (const std::invalid_argument&) {
    }
    duo_error error;
    duo_model* model;
    if (duo_open_memory(raw.data(), raw.size(), nullptr, &model, &error) != DUO_BAD_FORMAT) __builtin_trap();
    if (duo_open_memory(file.data(), file.size(), nullptr, &model, &error)) return 0;
    if (duo_arena_bytes(model) < size_t(1) << 28) run(model);
    duo_close(model);
    return 0;
}
