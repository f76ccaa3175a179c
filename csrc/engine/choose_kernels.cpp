#include <string>

#include "kernels.h"

namespace binaryduo {
namespace {

const Kernels* built(InstructionSet set) {
    switch (set) {
        case InstructionSet::kAmx:
            return kernels_amx();
        case InstructionSet::kAvx512Vbmi:
            return kernels_avx512vbmi();
        case InstructionSet::kAvx512:
            return kernels_avx512();
        case InstructionSet::kAvx2:
            return kernels_avx2();
        case InstructionSet::kNeon:
            return kernels_neon();
        case InstructionSet::kWasm:
            return kernels_wasm();
        default:
            return kernels_scalar();
    }
}

}  // namespace

const Kernels& choose_kernels() { return choose(built); }

const char* available_kernels() {
    static const std::string names = [] {
        std::string all;
        for (InstructionSet set : instruction_sets())
            if (built(set)) all += (all.empty() ? "" : " ") + std::string(name_of(set));
        return all;
    }();
    return names.c_str();
}

}  // namespace binaryduo
