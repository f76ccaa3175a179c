// Kernels of norm.h for x86 with AVX-512 (F, BW, VL). Compiled with those flags, called only where the CPU
// has them.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define NORM_NAMESPACE avx512
#define LANES 16
#include "kernels.h"

namespace binaryduo::norm {
const Kernels* kernels_avx512() {
    static const Kernels kernels = avx512::kernels("avx512");
    return &kernels;
}
}  // namespace binaryduo::norm
#else
#include "norm.h"

namespace binaryduo::norm {
const Kernels* kernels_avx512() { return nullptr; }
}  // namespace binaryduo::norm
#endif
