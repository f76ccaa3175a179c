// AVX-512 with VBMI and GFNI: lookups where channels fill whole blocks of 64 well enough, else population
// counts.
#include "avx512.h"

#if defined(BINARYDUO_AVX512VBMI)

namespace binaryduo {
namespace avx512vbmi {
#include "kernel_table.h"
// clang-format off: each needs those before it
#include "avx512_lanes.h"
#include "popcount_conv.h"
#include "lookup_conv.h"
#include "either_conv.h"
// clang-format on

using Binary = EitherConv<LookupConv, PopcountConv>;

}  // namespace avx512vbmi

const Kernels* kernels_avx512vbmi() {
    return avx512vbmi::make_kernels<avx512vbmi::Lanes16, avx512vbmi::Binary>("avx512vbmi");
}

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_avx512vbmi() { return nullptr; }
}  // namespace binaryduo
#endif
