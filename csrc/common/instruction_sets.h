// Which instruction sets this CPU has, and which one runs: the best of them, or the one that the environment
// variable BINARYDUO_ISA names. The engine and the kernels of training obey it alike.
#pragma once
#include <string>
#include <vector>

namespace binaryduo {

enum class InstructionSet {
    kAmx,  // what kAvx512Vbmi needs and AMX with bytes, granted by the system: Sapphire Rapids and later
    kAvx512Vbmi,  // what kAvx512 needs, VBMI and GFNI: Ice Lake, Zen 4 and later
    kAvx512,      // F, BW, VL and VPOPCNTDQ
    kAvx2,        // and FMA, POPCNT, BMI2
    kNeon,
    kWasm,  // WebAssembly's 128-bit SIMD
    kScalar,
};

const char* name_of(InstructionSet set);

// All that this CPU can run, the fastest first; the last one is always kScalar.
const std::vector<InstructionSet>& instruction_sets();

// AMX and AVX-512 with bfloat16, granted by the system: what the 3×3 convolutions of training use.
bool has_bf16_tiles();

// The sets that may run now, best first: all of the CPU's, or from the one that BINARYDUO_ISA names on.
// Throws std::invalid_argument if it names one that is unknown or that this CPU lacks.
std::vector<InstructionSet> allowed_instruction_sets();

// The best kernels of a family: `built` returns those for one set, or null where there are none.
template <typename Kernels>
const Kernels& choose(const Kernels* (*built)(InstructionSet)) {
    for (InstructionSet set : allowed_instruction_sets())
        if (const Kernels* kernels = built(set)) return *kernels;
    return *built(InstructionSet::kScalar);
}

}  // namespace binaryduo
