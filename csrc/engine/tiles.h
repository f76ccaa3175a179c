// The eight tile registers of AMX, of 16 rows of 64 bytes each, and the four instructions on them that we
// use. A check on a CPU without AMX computes the same in plain C++. The numbers of tiles are literals: the
// compiler writes them into its assembler. Included inside the namespace of the set.

#if defined(BINARYDUO_SIMDE)

inline thread_local uint8_t tile[8][16][64];
inline void configure_tiles() {}
inline void release_tiles() {}
inline void tile_load(int t, const uint8_t* from, size_t stride) {
    for (size_t row = 0; row < 16; ++row) std::memcpy(tile[t][row], from + row * stride, 64);
}
inline void tile_multiply(int sums, int a, int b) {
    for (size_t row = 0; row < 16; ++row)
        for (size_t column = 0; column < 16; ++column) {
            int32_t sum;
            std::memcpy(&sum, &tile[sums][row][4 * column], 4);
            for (size_t k = 0; k < 64; ++k)
                sum += int32_t(tile[a][row][k]) * int8_t(tile[b][k / 4][4 * column + k % 4]);
            std::memcpy(&tile[sums][row][4 * column], &sum, 4);
        }
}
#define TILE_ZERO(t) std::memset(tile[t], 0, sizeof tile[t])
#define TILE_LOAD(t, from, stride) tile_load(t, from, stride)
#define TILE_MULTIPLY(sums, a, b) tile_multiply(sums, a, b)
#define TILE_STORE(t, to, stride)         \
    for (size_t row = 0; row < 16; ++row) \
    std::memcpy(reinterpret_cast<uint8_t*>(to) + row * (stride), tile[t][row], 64)

#else

// All eight at full size. A thread's tiles are its own; another library may have left them in another shape.
inline void configure_tiles() {
    struct alignas(64) {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape{};
    shape.palette = 1;
    for (size_t t = 0; t < 8; ++t) shape.row_bytes[t] = 64, shape.rows[t] = 16;
    _tile_loadconfig(&shape);
}
inline void release_tiles() { _tile_release(); }
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, from, stride) _tile_loadd(t, from, stride)
#define TILE_MULTIPLY(sums, a, b) _tile_dpbusd(sums, a, b)  // unsigned bytes of a, signed ones of b
#define TILE_STORE(t, to, stride) _tile_stored(t, to, stride)

#endif
