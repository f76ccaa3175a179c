// Winograd kernels for any CPU: the compiler turns vectors of eight floats into what the target has.
#define WINOGRAD_NAMESPACE with_nothing
#include "winograd_kernels.h"

namespace winograd {
const Kernels* portable() {
    static const Kernels kernels{"portable", with_nothing::forward, with_nothing::weight_gradient};
    return &kernels;
}
}  // namespace winograd
