// Convolutions for any CPU: the compiler turns vectors of eight floats into what the target has.
#define WINOGRAD_NAMESPACE scalar
#define LANES 8
#include "winograd.h"

namespace binaryduo::convolution {
const Kernels* kernels_scalar() {
    static const Kernels kernels = scalar::kernels("scalar");
    return &kernels;
}
}  // namespace binaryduo::convolution
