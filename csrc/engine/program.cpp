#include "program.h"

#include <algorithm>
#include <string>

#include "op_reader.h"

namespace binaryduo {
namespace {

void read_tensors(const uint8_t* table, size_t bytes, Program& program) {
    if (bytes % kTensorRecord || bytes / kTensorRecord < 2) refuse("the tensor table has a wrong length");
    uint64_t total = 0;
    program.outputs.assign(1, int32_t(bytes / kTensorRecord) - 1);  // the last tensor, unless some are marked
    std::vector<int32_t> marked;
    for (size_t i = 0; i < bytes / kTensorRecord; ++i) {
        const uint8_t* r = table + i * kTensorRecord;
        Tensor t{Kind(read<uint32_t>(r)), read<uint32_t>(r + 4), read<uint32_t>(r + 8),
                 read<uint32_t>(r + 12), read<uint32_t>(r + 16)};
        const std::string name = "tensor " + std::to_string(i);
        if (t.kind != Kind::kFloat && t.kind != Kind::kBits && t.kind != Kind::kBytes)
            refuse(name + " has an unknown kind");
        if (t.kind == Kind::kBytes && (i || t.copies != 1))
            refuse(name + " holds bytes, which only the input does");
        if (t.channels < 1 || t.channels > (1u << 20) || t.height < 1 || t.height > 65535 || t.width < 1 ||
            t.width > 65535)
            refuse(name + " has a size out of range");
        if (t.copies < 1 || t.channels % t.copies)
            refuse(name + "'s channels are not a multiple of its copies");
        if (uint64_t(t.height) * t.width * t.pixel_bytes() > kLargestTensor)
            refuse(name + " is larger than " + std::to_string(kLargestTensor >> 20) + " MiB");
        total += (t.image_bytes() + 63) / 64 * 64;
        program.tensors.push_back(t);
        const uint32_t output = read<uint32_t>(r + 20);
        if (!output) continue;
        if (output > kMostOutputs) refuse(name + " is an output of too high a number");
        marked.resize(std::max<size_t>(marked.size(), output), -1);
        if (marked[output - 1] != -1) refuse(name + " has the number of another output");
        marked[output - 1] = int32_t(i);
    }
    if (std::count(marked.begin(), marked.end(), -1)) refuse("the outputs are not numbered without a gap");
    if (!marked.empty()) program.outputs = marked;
    if (total > kLargestProgram)
        refuse("the tensors are larger than " + std::to_string(kLargestProgram >> 20) + " MiB together");
}

}  // namespace

Program read_program(const uint8_t* tensors, size_t tensors_bytes, const uint8_t* ops, size_t ops_bytes,
                     const uint8_t* data, size_t data_bytes) {
    Program program{};
    read_tensors(tensors, tensors_bytes, program);
    if (ops_bytes % kOpRecord || ops_bytes == 0 || ops_bytes / kOpRecord > 65536)
        refuse("the operation table has a wrong length");
    std::vector<bool> defined(program.tensors.size(), false);
    program.input = 0;
    if (program.tensors[0].kind == Kind::kBits)
        refuse("the first tensor is the input and must be floats or bytes");
    for (int32_t output : program.outputs)
        if (program.tensors[output].kind != Kind::kFloat)
            refuse("tensor " + std::to_string(output) + " is an output and must be float");
    defined[0] = true;
    OpReader reader(program, data, data_bytes, defined);
    program.ops.reserve(ops_bytes / kOpRecord);
    for (size_t i = 0; i < ops_bytes / kOpRecord; ++i)
        reader.read_op(ops + i * kOpRecord, "operation " + std::to_string(i));
    for (int32_t output : program.outputs)
        if (output == program.input || !defined[output]) refuse("no operation writes the output");
    place_tensors(program);
    return program;
}

}  // namespace binaryduo
