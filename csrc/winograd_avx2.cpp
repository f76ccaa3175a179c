// Winograd kernels for x86 with AVX2 and FMA. Compiled with those flags, called only where the CPU has them.
#include "winograd.h"

#if defined(__AVX2__) && defined(__FMA__)
#define WINOGRAD_NAMESPACE with_avx2
#include "winograd_kernels.h"

namespace winograd {
const Kernels* avx2() {
    static const Kernels kernels{"avx2", with_avx2::forward, with_avx2::weight_gradient};
    return &kernels;
}
}  // namespace winograd
#else
namespace winograd {
const Kernels* avx2() { return nullptr; }
}  // namespace winograd
#endif
