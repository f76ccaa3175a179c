// AVX-512 with VBMI and GFNI: lookups where channels fill whole blocks of 64 well enough, else population
// counts.
#include "avx512.h"

#if defined(BINARYDUO_AVX512VBMI)

namespace binaryduo {
namespace avx512vbmi {
#include "kernel_table.h"
// clang-format off: each needs those before it
#include "avx512_lanes.h"
#include "lookup_conv.h"
#include "either_conv.h"
#include "other_set.h"
// clang-format on

}  // namespace avx512vbmi

const Kernels* kernels_avx512vbmi() {
    if (!kernels_avx512()) return nullptr;
    static const Kernels kernels =
        avx512vbmi::with_first<avx512vbmi::LookupConv, kernels_avx512>("avx512vbmi");
    return &kernels;
}

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_avx512vbmi() { return nullptr; }
}  // namespace binaryduo
#endif
