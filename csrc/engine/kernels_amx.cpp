// AMX: tiles of bytes where an image fills them, else what AVX-512 with VBMI does.
#include "avx512.h"

#if defined(BINARYDUO_AMX)

namespace binaryduo {
namespace amx {
#include "kernel_table.h"
// clang-format off: each needs those before it
#include "avx512_lanes.h"
#include "popcount_conv.h"
#include "lookup_conv.h"
#include "either_conv.h"
#include "tiles.h"
#include "tile_conv.h"
// clang-format on

using Binary = EitherConv<TileConv, EitherConv<LookupConv, PopcountConv>>;

}  // namespace amx

const Kernels* kernels_amx() { return amx::make_kernels<amx::Lanes16, amx::Binary>("amx"); }

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_amx() { return nullptr; }
}  // namespace binaryduo
#endif
