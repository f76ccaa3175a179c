#include "instruction_sets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace binaryduo {
namespace {

#if defined(__x86_64__)
// AMX has state of its own, 8 KiB a thread, that Linux keeps for a process only if asked. It refuses where
// the kernel is old, or where a stack for signals that someone has set up would be too small for it.
bool tiles_are_granted() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kTile) == 0 || (d & kInt8) == 0) return false;
#if defined(__linux__)
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return false;
#endif
}
#endif

std::vector<InstructionSet> find_instruction_sets() {
    std::vector<InstructionSet> found;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt") &&
        __builtin_cpu_supports("bmi2")) {
        found.push_back(InstructionSet::kAvx2);
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vpopcntdq") &&
            __builtin_cpu_supports("avx512vnni")) {
            found.insert(found.begin(), InstructionSet::kAvx512);
            // Zen 4 and Zen 5 count faster than they look up, Sapphire Rapids looks up faster than it counts:
            // as measured.
            if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni")) {
                found.insert(found.begin() + (__builtin_cpu_is("amd") ? 1 : 0), InstructionSet::kAvx512Vbmi);
                if (tiles_are_granted()) found.insert(found.begin(), InstructionSet::kAmx);
            }
        }
    }
#elif defined(__aarch64__)
    found.push_back(InstructionSet::kNeon);
#elif defined(__wasm_simd128__)
    found.push_back(InstructionSet::kWasm);
#endif
    found.push_back(InstructionSet::kScalar);
    return found;
}

}  // namespace

const char* name_of(InstructionSet set) {
    switch (set) {
        case InstructionSet::kAmx:
            return "amx";
        case InstructionSet::kAvx512Vbmi:
            return "avx512vbmi";
        case InstructionSet::kAvx512:
            return "avx512";
        case InstructionSet::kAvx2:
            return "avx2";
        case InstructionSet::kNeon:
            return "neon";
        case InstructionSet::kWasm:
            return "wasm";
        default:
            return "scalar";
    }
}

const std::vector<InstructionSet>& instruction_sets() {
    static const std::vector<InstructionSet> found = find_instruction_sets();
    return found;
}

std::vector<InstructionSet> allowed_instruction_sets() {
    const std::vector<InstructionSet>& all = instruction_sets();
    const char* wanted = std::getenv("BINARYDUO_ISA");
    if (!wanted || !*wanted) return all;
    const auto first = std::find_if(all.begin(), all.end(),
                                    [&](InstructionSet set) { return name_of(set) == std::string(wanted); });
    if (first != all.end()) return {first, all.end()};
    std::string names;
    for (InstructionSet set : all) names += (names.empty() ? "" : ", ") + std::string(name_of(set));
    throw std::invalid_argument("BINARYDUO_ISA is '" + std::string(wanted) +
                                "', but this CPU runs one of: " + names);
}

}  // namespace binaryduo
