// A coverage-guided fuzz target for the native reader and executor, with the sanitizers;
// tests/soak/fuzzing.py builds and runs it. The input is a .duo file, which fuzz_mutator.cpp alters and makes
// whole again. A program that is accepted and small enough is run with every instruction set of the CPU: the
// vector sets must agree to the last bit, and the scalar one wherever nothing is multiplied and added at once
// (it rounds in between).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

#include "../engine/model.h"
#include "fuzz_container.h"

using namespace binaryduo;
using duo_file::Bytes;

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

std::vector<std::string> sets() {
    std::istringstream words(available_kernels());
    std::vector<std::string> found;
    for (std::string word; words >> word;) found.push_back(word);
    return found;
}

using Trace = std::vector<Bytes>;  // every tensor of the program, for one image

bool same(const Tensor& t, const Bytes& a, const Bytes& b) {
    if (a == b) return true;
    if (t.kind != Kind::kFloat) return false;
    for (size_t i = 0; i < a.size(); i += sizeof(float)) {
        const float x = duo_file::get<float>(&a[i]), y = duo_file::get<float>(&b[i]);
        if (!(std::isnan(x) && std::isnan(y)) && std::memcmp(&x, &y, sizeof(float))) return false;
    }
    return true;
}

// Whether all instruction sets give the same result of the same input: those that multiply and add in one
// step and those that round in between differ elsewhere.
bool exact(const Op& op) {
    switch (op.code) {
        case Code::kBinaryConv:
        case Code::kPointwise:
            return !op.scale;
        case Code::kFloatConv:
            return false;
        default:
            return true;
    }
}

void compare(const Program& program, const Trace& one, const Trace& other, bool all,
             const std::string& names) {
    for (const Op& op : program.ops) {
        bool equal = true;  // inputs
        for (int32_t t : {op.input, op.residual})
            if (t >= 0) equal = equal && same(program.tensors[t], one[t], other[t]);
        if (!all && !(equal && exact(op))) continue;
        for (int32_t t : {op.out_float, op.out_bits})
            if (t >= 0 && !same(program.tensors[t], one[t], other[t])) {
                std::fprintf(stderr, "%s differ in tensor %d, operation of code %u\n", names.c_str(), t,
                             unsigned(op.code));
                std::abort();
            }
    }
}

// One image with every set, and a batch with one of them, in turn.
void run_with_every_set(const Program& program, size_t size) {
    static const std::vector<std::string> names = sets();
    const Tensor in = program.tensors[program.input], out = program.tensors[program.output];
    constexpr size_t kImages = 3;
    std::vector<float> images(kImages * in.pixels() * in.channels),
        result(kImages * out.pixels() * out.channels);
    for (size_t i = 0; i < images.size(); ++i) images[i] = float(int(i * 37 % 23) - 11) / 8;
    Trace first;
    for (const std::string& name : names) {
        setenv("BINARYDUO_ISA", name.c_str(), 1);
        Model model(program, 1);
        if (model.workspace_bytes() > (size_t(1) << 24)) return;
        if (name == names[size % names.size()]) model.run(images.data(), kImages, result.data());
        Trace trace;
        std::vector<uint8_t*> targets;
        for (const Tensor& t : program.tensors) trace.emplace_back(t.image_bytes());
        for (Bytes& tensor : trace) targets.push_back(tensor.data());
        model.trace(images.data(), targets.data());
        if (first.empty())
            first = trace;
        else
            compare(program, first, trace, name != "scalar", names[0] + " and " + name);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    Bytes parts[duo_file::kParts];
    if (!duo_file::split(bytes, size, parts, true)) return 0;
    // Copies of exact length, so that the sanitizer sees every byte read too far.
    for (Bytes& part : parts) part.shrink_to_fit();
    const Bytes &tensors = parts[duo_file::kTensors], &ops = parts[duo_file::kOps],
                &data = parts[duo_file::kData];
    try {
        const Program program =
            read_program(tensors.data(), tensors.size(), ops.data(), ops.size(), data.data(), data.size());
        if (program.total_bytes < (1 << 16) && products(program) < 2e5)
            run_with_every_set(program, size / duo_file::kAlign);
    } catch (const std::invalid_argument&) {
    }
    return 0;
}
