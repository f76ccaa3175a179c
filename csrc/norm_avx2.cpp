// Kernels of norm.h for x86 with AVX2 and FMA. Compiled with those flags, called only where the CPU has them.
#include "norm.h"

#if defined(__AVX2__) && defined(__FMA__)
#define NORM_NAMESPACE with_avx2
#include "norm_kernels.h"

namespace norm {
const Kernels* avx2() {
    static const Kernels kernels{"avx2", with_avx2::forward, with_avx2::backward};
    return &kernels;
}
}  // namespace norm
#else
namespace norm {
const Kernels* avx2() { return nullptr; }
}  // namespace norm
#endif
