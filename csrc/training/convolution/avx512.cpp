// Convolutions for x86 with AVX-512 (F, BW, VL). Compiled with those flags, called only where the CPU has
// them.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define WINOGRAD_NAMESPACE avx512
#define LANES 16
#include "winograd.h"

namespace binaryduo::convolution {
const Kernels* kernels_avx512() {
    static const Kernels kernels = avx512::kernels("avx512");
    return &kernels;
}
}  // namespace binaryduo::convolution
#else
#include "convolution.h"

namespace binaryduo::convolution {
const Kernels* kernels_avx512() { return nullptr; }
}  // namespace binaryduo::convolution
#endif
