// AMX: tiles of bytes where an image fills them. All else is done by the kernels of AVX-512 with VBMI, as
// they are: a second copy of them would be a third of the library.
#include "avx512.h"

#if defined(BINARYDUO_AMX)

namespace binaryduo {
namespace amx {
#include "kernel_table.h"
// clang-format off: each needs those before it
#include "avx512_lanes.h"
#include "either_conv.h"
#include "other_set.h"
#include "tiles.h"
#include "tile_conv.h"
// clang-format on

}  // namespace amx

const Kernels* kernels_amx() {
    if (!kernels_avx512vbmi()) return nullptr;
    static const Kernels kernels = amx::with_first<amx::TileConv, kernels_avx512vbmi>("amx");
    return &kernels;
}

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_amx() { return nullptr; }
}  // namespace binaryduo
#endif
