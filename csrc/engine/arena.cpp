// Where each tensor of a program lies while it runs.
#include <algorithm>

#include "program.h"

namespace binaryduo {

void place_tensors(Program& program) {
    const size_t n = program.tensors.size();
    std::vector<int32_t> first(n, -1);
    program.last_use.assign(n, -1);
    first[program.input] = program.last_use[program.input] = 0;
    for (size_t i = 0; i < program.ops.size(); ++i) {
        const Op& op = program.ops[i];
        for (int32_t t : {op.out_float, op.out_bits})
            if (t >= 0) first[t] = program.last_use[t] = int32_t(i);
        for (int32_t t : {op.input, op.residual})
            if (t >= 0) program.last_use[t] = int32_t(i);
    }
    for (int32_t output : program.outputs) program.last_use[output] = int32_t(program.ops.size());
    program.offsets.assign(n, 0);
    program.arena_bytes = 0;
    std::vector<size_t> order;
    for (size_t i = 0; i < n; ++i)
        if (first[i] >= 0) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return first[a] < first[b]; });
    std::vector<size_t> placed;  // alive ones, by offset
    for (size_t t : order) {
        const size_t size = (program.tensors[t].image_bytes() + 63) / 64 * 64;
        placed.erase(std::remove_if(placed.begin(), placed.end(),
                                    [&](size_t other) { return program.last_use[other] < first[t]; }),
                     placed.end());
        size_t offset = 0, slot = 0;
        for (; slot < placed.size(); ++slot) {
            const size_t other = placed[slot];
            if (program.offsets[other] >= offset + size) break;
            offset = program.offsets[other] + (program.tensors[other].image_bytes() + 63) / 64 * 64;
        }
        program.offsets[t] = offset;
        placed.insert(placed.begin() + slot, t);
        program.arena_bytes = std::max(program.arena_bytes, offset + size);
    }
}

}  // namespace binaryduo
