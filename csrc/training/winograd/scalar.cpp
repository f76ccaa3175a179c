// Winograd kernels for any CPU: the compiler turns vectors of eight floats into what the target has.
#define WINOGRAD_NAMESPACE scalar
#include "kernels.h"

namespace binaryduo::winograd {
const Kernels* kernels_scalar() {
    static const Kernels kernels{"scalar", scalar::forward, scalar::weight_gradient};
    return &kernels;
}
}  // namespace binaryduo::winograd
