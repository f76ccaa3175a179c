// AVX-512 with VPOPCNTDQ and VNNI.
#include "avx512.h"

#if defined(BINARYDUO_AVX512)

namespace binaryduo {
namespace avx512 {
#include "kernel_table.h"
// clang-format off: each needs those before it
#include "avx512_lanes.h"
#include "popcount_conv.h"
// clang-format on

void finish_sums(const Epilogue& e, const float* sums, size_t apart, size_t pixels, size_t pixel,
                 size_t first, size_t count) {
    finish_floats<Lanes16>(e, sums, apart, pixels, pixel, first, count);
}
}  // namespace avx512

const Kernels* kernels_avx512() {
    return avx512::make_kernels<avx512::Lanes16, avx512::PopcountConv, avx512::ByteSteps16>("avx512");
}

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_avx512() { return nullptr; }
}  // namespace binaryduo
#endif
