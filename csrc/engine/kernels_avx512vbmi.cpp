// AVX-512 with VBMI and GFNI: lookups where channels fill whole blocks of 64 well enough, else population
// counts.
#include "avx512.h"

#if defined(BINARYDUO_AVX512VBMI)

namespace binaryduo {
namespace avx512vbmi {
#include "kernel_table.h"
// clang-format off: each needs those before it
#include "avx512_lanes.h"
#include "popcount_conv.h"
#include "lookup_conv.h"
// clang-format on

// A table is made once for all blocks of channels and serves two pixels: with one block, or for dense layers,
// whose pixels are images, population counts are faster. Depends on nothing that differs from run to run.
inline bool looks_up(const ConvShape& s) { return s.channels >= 128 && s.height > 1; }

struct BestConv {
    static const char* name(const ConvShape& s) {
        return looks_up(s) ? LookupConv::name(s) : PopcountConv::name(s);
    }
    static size_t weight_bytes(const ConvShape& s) {
        return looks_up(s) ? LookupConv::weight_bytes(s) : PopcountConv::weight_bytes(s);
    }
    static void prepare_weights(const ConvShape& s, const uint8_t* weights, uint8_t* out) {
        (looks_up(s) ? LookupConv::prepare_weights : PopcountConv::prepare_weights)(s, weights, out);
    }
    static size_t stream_bytes(const ConvShape& s) {
        return looks_up(s) ? LookupConv::stream_bytes(s) : PopcountConv::stream_bytes(s);
    }
    static size_t scratch_bytes(const ConvShape& s) {
        return looks_up(s) ? LookupConv::scratch_bytes(s) : PopcountConv::scratch_bytes(s);
    }
    static void prepare_row(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* stream,
                            uint16_t* counts, uint8_t* scratch) {
        (looks_up(s) ? LookupConv::prepare_row : PopcountConv::prepare_row)(s, input, row, stream, counts,
                                                                            scratch);
    }
    static size_t items(const ConvShape& s) {
        return looks_up(s) ? LookupConv::items(s) : PopcountConv::items(s);
    }
    static void item(const ConvShape& s, const uint8_t* stream, const uint16_t* counts,
                     const uint8_t* weights, const Epilogue& e, size_t number, uint8_t* scratch) {
        (looks_up(s) ? LookupConv::item : PopcountConv::item)(s, stream, counts, weights, e, number, scratch);
    }
};

}  // namespace avx512vbmi

const Kernels* kernels_avx512vbmi() {
    return avx512vbmi::make_kernels<avx512vbmi::Lanes16, avx512vbmi::BestConv>("avx512vbmi");
}

}  // namespace binaryduo
#else
namespace binaryduo {
const Kernels* kernels_avx512vbmi() { return nullptr; }
}  // namespace binaryduo
#endif
