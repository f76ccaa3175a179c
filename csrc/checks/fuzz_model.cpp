// A coverage-guided fuzz target for the C API, with the sanitizers; tests/soak/fuzzing.py builds and runs it.
// The input is a .duo file, which fuzz_mutator.cpp alters and makes whole again. A program that is accepted
// and small enough is run with every instruction set of the CPU: the vector sets must agree to the last bit,
// and the scalar one wherever nothing is multiplied and added at once (it rounds in between).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

#include "../engine/program.h"
#include "../include/duo.h"
#include "fuzz_container.h"

using namespace binaryduo;
using duo_file::Bytes;

namespace {

constexpr size_t kImages = 3;  // of which two go through the network together

// Every tensor of the network for all images, as the run has written it.
using Trace = std::vector<Bytes>;

[[noreturn]] void broken(const std::string& what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::abort();
}

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

bool same(const Tensor& t, const Bytes& a, const Bytes& b) {
    if (a == b) return true;
    if (t.kind != Kind::kFloat || a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); i += sizeof(float)) {
        const float x = duo_file::get<float>(&a[i]), y = duo_file::get<float>(&b[i]);
        if (!(std::isnan(x) && std::isnan(y)) && std::memcmp(&x, &y, sizeof(float))) return false;
    }
    return true;
}

// Whether all instruction sets give the same result of the same input: elsewhere those that multiply and add
// in one step differ from those that round in between.
bool exact(const Op& op) {
    switch (op.code) {
        case Code::kBinaryConv:
        case Code::kPointwise:
            return !op.scale;
        case Code::kMaxPool:
        case Code::kAveragePool:
        case Code::kMeanCopies:
        case Code::kPadChannels:
        case Code::kUnpack:
        case Code::kConcat:
        case Code::kCurve:  // these four are compiled once, for all sets
        case Code::kJoin:
        case Code::kResample:
        case Code::kNormalise:
        case Code::kLookup:
            return true;
        default:
            return false;
    }
}

void compare(const Program& program, const Trace& one, const Trace& other, bool all,
             const std::string& names) {
    for (const Op& op : program.ops) {
        bool equal = true;  // inputs
        for (int32_t t : {op.input, op.residual})
            if (t >= 0) equal = equal && same(program.tensors[t], one[t], other[t]);
        if (!equal || !(all || exact(op))) continue;
        for (int32_t t : {op.out_float, op.out_bits})
            if (t >= 0 && !same(program.tensors[t], one[t], other[t]))
                broken(names + " differ in tensor " + std::to_string(t) + ", operation of code " +
                       std::to_string(unsigned(op.code)));
    }
}

struct OpenModel {
    duo_model* model = nullptr;
    duo_error error;
    duo_status status;

    OpenModel(const uint8_t* bytes, size_t size) {
        duo_options options{};
        options.together = 2;
        status = duo_open_memory(bytes, size, &options, &model, &error);
        if ((status == DUO_OK) != (model != nullptr) || (status == DUO_OK) != !*error.sentence)
            broken("a status without its sentence, or a sentence without its status");
    }
    ~OpenModel() { duo_close(model); }
};

Trace run(const duo_model* model) {
    std::vector<Bytes> inputs, outputs;
    std::vector<const void*> from;
    std::vector<void*> to;
    duo_tensor tensor;
    for (size_t i = 0; i < duo_inputs(model); ++i) {
        if (duo_input(model, i, &tensor, nullptr)) broken("an input that cannot be described");
        inputs.emplace_back(kImages * tensor.bytes);
        if (tensor.kind == DUO_FLOAT32)
            for (size_t at = 0; at < inputs[i].size(); at += 4)
                duo_file::put(&inputs[i][at], float(int(at / 4 * 37 % 23) - 11) / 8);
        else
            for (size_t at = 0; at < inputs[i].size(); ++at) inputs[i][at] = uint8_t(at * 37);
    }
    for (size_t i = 0; i < duo_outputs(model); ++i) {
        if (duo_output(model, i, &tensor, nullptr)) broken("an output that cannot be described");
        outputs.emplace_back(kImages * tensor.bytes);
    }
    for (const Bytes& input : inputs) from.push_back(input.data());
    for (Bytes& output : outputs) to.push_back(output.data());
    struct Watcher {
        const duo_model* model;
        Trace trace;
    } watcher{model, Trace(duo_tensors(model))};
    const duo_watch watch = [](void* self, const duo_written* w) {
        Watcher& own = *static_cast<Watcher*>(self);
        duo_tensor written;
        duo_tensor_of(own.model, w->tensor, &written, nullptr);
        const uint8_t* values = static_cast<const uint8_t*>(w->values);
        own.trace[w->tensor].insert(own.trace[w->tensor].end(), values, values + w->images * written.bytes);
    };
    Bytes arena(duo_arena_bytes(model), 0xFF);
    duo_error error;
    if (duo_run_watched(model, kImages, from.data(), to.data(), arena.data(), arena.size(), watch, &watcher,
                        &error))
        broken(std::string("a model that opens does not run: ") + error.sentence);
    return watcher.trace;
}

std::vector<std::string> instruction_set_names() {
    std::istringstream words(duo_instruction_sets());
    std::vector<std::string> found;
    for (std::string word; words >> word;) found.push_back(word);
    return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    static const std::vector<std::string> names = instruction_set_names();
    setenv("BINARYDUO_ISA", names[0].c_str(), 1);
    const OpenModel best(bytes, size);
    // The tables once more as copies of exact length, so that the sanitizer sees every byte read too far.
    Bytes parts[duo_file::kParts];
    if (!duo_file::split(bytes, size, parts, true)) {
        if (!best.status) broken("a file whose container is not right was opened");
        return 0;
    }
    const Bytes &tensors = parts[duo_file::kTensors], &ops = parts[duo_file::kOps],
                &data = parts[duo_file::kData];
    try {
        const Program program =
            read_program(tensors.data(), tensors.size(), ops.data(), ops.size(), data.data(), data.size());
        if (best.status == DUO_NO_MEMORY) return 0;
        if (best.status)
            broken(std::string("a program that can be read was refused: ") + best.error.sentence);
        if (duo_arena_bytes(best.model) > (1 << 20) || products(program) > 2e5) return 0;
        const Trace wanted = run(best.model);
        for (size_t i = 1; i < names.size(); ++i) {
            setenv("BINARYDUO_ISA", names[i].c_str(), 1);
            const OpenModel other(bytes, size);
            compare(program, wanted, run(other.model), names[i] != "scalar", names[0] + " and " + names[i]);
        }
    } catch (const std::invalid_argument&) {
        if (!best.status) broken("a program that is refused was opened");
    }
    return 0;
}
