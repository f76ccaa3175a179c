// Kernels of norm.h for any CPU: the compiler turns vectors of eight floats into what the target has.
#define NORM_NAMESPACE scalar
#define LANES 8
#include "kernels.h"

namespace binaryduo::norm {
const Kernels* kernels_scalar() {
    static const Kernels kernels = scalar::kernels("scalar");
    return &kernels;
}
}  // namespace binaryduo::norm
