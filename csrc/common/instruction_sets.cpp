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
// What this CPU has and the system keeps the registers of. Asked of the CPU itself: compilers' own
// __builtin_cpu_supports needs a part of their runtime library that not all of them bring.
struct Cpu {
    bool avx2 = false, avx512 = false, vbmi = false, tiles = false, bytes_in_tiles = false,
         bf16_in_tiles = false, amd = false;

    Cpu() {
        const Leaf first(1), features(7), more(7, 1);
        if (!bit(first.c, 27)) return;  // XGETBV, which says what the system keeps
        unsigned low = 0, high = 0;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        constexpr unsigned kAvxState = 0x06, kAvx512State = 0xe6;
        if ((low & kAvxState) != kAvxState) return;
        avx2 = bit(first.c, 28) && bit(features.b, 5) && bit(first.c, 12) && bit(first.c, 23) &&
               bit(features.b, 8);  // AVX, AVX2, FMA, POPCNT, BMI2
        if ((low & kAvx512State) != kAvx512State) return;
        const bool vectors =
            avx2 && bit(features.b, 16) && bit(features.b, 30) && bit(features.b, 31);  // F, BW, VL
        avx512 = vectors && bit(features.c, 14) && bit(features.c, 11);                 // VPOPCNTDQ, VNNI
        vbmi = avx512 && bit(features.c, 1) && bit(features.c, 8);                      // VBMI, GFNI
        tiles = vectors && bit(features.d, 24);
        bytes_in_tiles = tiles && bit(features.d, 25);
        bf16_in_tiles = tiles && bit(features.d, 22) && bit(more.a, 5);  // with AVX-512's own bfloat16
        amd = Leaf(0).b == 0x68747541;                                   // "Auth" of AuthenticAMD
    }

  private:
    struct Leaf {
        unsigned a = 0, b = 0, c = 0, d = 0;
        explicit Leaf(unsigned number, unsigned part = 0) { __get_cpuid_count(number, part, &a, &b, &c, &d); }
    };
    static bool bit(unsigned word, int place) { return (word >> place & 1) != 0; }
};

// AMX has state of its own, 8 KiB a thread, that Linux keeps for a process only if asked. It refuses where
// the kernel is old, or where a stack for signals that someone has set up would be too small for it.
bool tiles_are_granted() {
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
    const Cpu cpu;
    if (cpu.avx2) found.push_back(InstructionSet::kAvx2);
    if (cpu.avx512) found.insert(found.begin(), InstructionSet::kAvx512);
    // Zen 4 and Zen 5 count faster than they look up, Sapphire Rapids looks up faster than it counts: as
    // measured.
    if (cpu.vbmi) found.insert(found.begin() + (cpu.amd ? 1 : 0), InstructionSet::kAvx512Vbmi);
    if (cpu.vbmi && cpu.bytes_in_tiles && tiles_are_granted())
        found.insert(found.begin(), InstructionSet::kAmx);
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

bool has_bf16_tiles() {
#if defined(__x86_64__)
    static const bool here = Cpu().bf16_in_tiles && tiles_are_granted();
    return here;
#else
    return false;
#endif
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
