// Winograd kernels for x86 with AVX2 and FMA. Compiled with those flags, called only where the CPU has them.
#if defined(__AVX2__) && defined(__FMA__)
#define WINOGRAD_NAMESPACE avx2
#include "kernels.h"

namespace binaryduo::winograd {
const Kernels* kernels_avx2() {
    static const Kernels kernels{"avx2", avx2::forward, avx2::weight_gradient};
    return &kernels;
}
}  // namespace binaryduo::winograd
#else
#include "winograd.h"

namespace binaryduo::winograd {
const Kernels* kernels_avx2() { return nullptr; }
}  // namespace binaryduo::winograd
#endif
