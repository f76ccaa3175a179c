// Convolutions for x86 with AVX2 and FMA. Compiled with those flags, called only where the CPU has them.
#if defined(__AVX2__) && defined(__FMA__)
#define WINOGRAD_NAMESPACE avx2
#define LANES 8
#include "winograd.h"

namespace binaryduo::convolution {
const Kernels* kernels_avx2() {
    static const Kernels kernels = avx2::kernels("avx2");
    return &kernels;
}
}  // namespace binaryduo::convolution
#else
#include "convolution.h"

namespace binaryduo::convolution {
const Kernels* kernels_avx2() { return nullptr; }
}  // namespace binaryduo::convolution
#endif
