// All that instruction sets share, and the table of functions made of it: for one `Policy`, and one `Binary`
// that does binary convolutions. Included inside each set's own namespace.
// clang-format off: each needs those before it
#include "../common/vectors.h"
#include "epilogue.h"
#include "places.h"
#include "binary_rows.h"
#include "binary_conv.h"
#include "float_conv.h"
#include "select_conv.h"
#include "byte_conv.h"
#include "grouped_conv.h"
#include "pooling.h"
// clang-format on

template <typename Policy, typename Binary, typename Steps = PlainByteSteps>
const Kernels* make_kernels(const char* name) {
    static const Kernels kernels{
        name,
        Binary::name,
        Binary::weight_bytes,
        Binary::prepare_weights,
        Binary::stream_bytes,
        Binary::prepare_row,
        Binary::items,
        Binary::item,
        [](const ConvShape& s) { return std::max(Binary::scratch_bytes(s), kFloatScratch); },
        float_items,
        float_item<Policy>,
        kSelectScratch,
        select_items,
        select_item<Policy>,
        ByteConv<Policy, Steps>::weight_bytes,
        ByteConv<Policy, Steps>::prepare_weights,
        ByteConv<Policy, Steps>::items,
        ByteConv<Policy, Steps>::item,
        grouped_bits_row,
        grouped_floats_row<Policy>,
        max_pool_row<Policy>,
        or_pool_row,
        average_pool_row,
        pointwise<Policy>};
    return &kernels;
}
