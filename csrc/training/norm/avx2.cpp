// Kernels of norm.h for x86 with AVX2 and FMA. Compiled with those flags, called only where the CPU has them.
#if defined(__AVX2__) && defined(__FMA__)
#define NORM_NAMESPACE avx2
#define LANES 8
#include "kernels.h"

namespace binaryduo::norm {
const Kernels* kernels_avx2() {
    static const Kernels kernels = avx2::kernels("avx2");
    return &kernels;
}
}  // namespace binaryduo::norm
#else
#include "norm.h"

namespace binaryduo::norm {
const Kernels* kernels_avx2() { return nullptr; }
}  // namespace binaryduo::norm
#endif
