// All that instruction sets share, and the table of functions made of it for one `Policy`. Included inside
// each set's own namespace.
// clang-format off: each needs those before it
#include "../common/vectors.h"
#include "epilogue.h"
#include "binary_conv.h"
#include "float_conv.h"
#include "pooling.h"
// clang-format on

template <typename Policy>
const Kernels* make_kernels(const char* name, const char* binary_kernel) {
    static const Kernels table{name,
                               binary_kernel,
                               stream_bytes<Policy>,
                               prepare_row<Policy>,
                               binary_items<Policy>,
                               binary_item<Policy>,
                               scratch_bytes<Policy>,
                               float_items,
                               float_item<Policy>,
                               max_pool_row,
                               or_pool_row,
                               average_pool_row,
                               pointwise<Policy>};
    return &table;
}
