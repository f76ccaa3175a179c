// Which instruction set runs: the best one this CPU has, or the one that BINARYDUO_ISA names.
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.h"

namespace binaryduo {
namespace {

std::vector<const Kernels*> find_available() {
    std::vector<const Kernels*> found;
    auto add = [&](const Kernels* kernels) {
        if (kernels) found.push_back(kernels);
    };
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vpopcntdq"))
        add(kernels_avx512());
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt"))
        add(kernels_avx2());
#elif defined(__aarch64__)
    add(kernels_neon());
#endif
    add(kernels_scalar());
    return found;
}

const std::vector<const Kernels*>& available() {
    static const std::vector<const Kernels*> found = find_available();
    return found;
}

}  // namespace

const char* available_kernels() {
    static const std::string names = [] {
        std::string all;
        for (const Kernels* kernels : available())
            all += (all.empty() ? "" : " ") + std::string(kernels->name);
        return all;
    }();
    return names.c_str();
}

const Kernels& choose_kernels() {
    const char* wanted = std::getenv("BINARYDUO_ISA");
    if (!wanted || !*wanted) return *available().front();
    for (const Kernels* kernels : available())
        if (std::string(wanted) == kernels->name) return *kernels;
    throw std::invalid_argument("BINARYDUO_ISA is '" + std::string(wanted) +
                                "', but this CPU runs one of: " + available_kernels());
}

}  // namespace binaryduo
