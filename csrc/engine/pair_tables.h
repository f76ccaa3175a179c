// The constant tables of the kernels that look four inputs of two pixels up at once (kernels_avx2.cpp says
// how): for the pair (a, a') of four activations each, T[w] = popcount(a & w) + 16 · popcount(a' & w).
// Included inside each instruction set's own namespace.

struct PairTables {
    alignas(64) uint8_t row[256][16];
    constexpr PairTables() : row() {
        for (int pair = 0; pair < 256; ++pair)
            for (int w = 0; w < 16; ++w) {
                int low = 0, high = 0;
                for (int bit = 0; bit < 4; ++bit) {
                    low += (pair >> bit) & (w >> bit) & 1;
                    high += (pair >> (bit + 4)) & (w >> bit) & 1;
                }
                row[pair][w] = uint8_t(low + 16 * high);
            }
    }
};
constexpr PairTables kPairTables;

// Where the tables lie for one byte of two neighbouring pixels: that of the low nibbles, then that of the
// high.
inline void store_offsets(uint8_t a, uint8_t b, uint8_t* out) {
    const uint16_t offsets[2] = {uint16_t(((a & 15) | (b & 15) << 4) * 16),
                                 uint16_t(((a >> 4) | (b & 0xf0)) * 16)};
    std::memcpy(out, offsets, 4);
}
