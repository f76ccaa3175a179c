// Winograd's transforms of F(4×4, 3×3), in one dimension and in two. Included inside the namespace of each
// instruction set, after vectors.h.

// In one dimension; `s` and `t` are the distances between the elements that go in and come out.
inline void input_1d(const Floats* d, long s, Floats* u, long t) {
    const Floats d0 = d[0], d1 = d[s], d2 = d[2 * s], d3 = d[3 * s], d4 = d[4 * s], d5 = d[5 * s];
    const Floats a = d4 - 4 * d2, b = d3 - 4 * d1, c = d4 - d2, e = 2 * (d3 - d1);
    u[0] = 4 * d0 - 5 * d2 + d4;
    u[t] = a + b;
    u[2 * t] = a - b;
    u[3 * t] = c + e;
    u[4 * t] = c - e;
    u[5 * t] = 4 * d1 - 5 * d3 + d5;
}

inline void output_1d(const Floats* m, long s, Floats* y, long t) {
    const Floats m0 = m[0], m1 = m[s], m2 = m[2 * s], m3 = m[3 * s], m4 = m[4 * s], m5 = m[5 * s];
    const Floats a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4;
    y[0] = m0 + a + c;
    y[t] = b + 2 * d;
    y[2 * t] = a + 4 * c;
    y[3 * t] = b + 8 * d + m5;
}

inline void gradient_1d(const Floats* y, long s, Floats* m, long t) {
    const Floats y0 = y[0], y1 = y[s], y2 = y[2 * s], y3 = y[3 * s];
    const Floats a = y0 + y2, b = y1 + y3, c = y0 + 4 * y2, d = 2 * y1 + 8 * y3;
    m[0] = y0;
    m[t] = a + b;
    m[2 * t] = a - b;
    m[3 * t] = c + d;
    m[4 * t] = c - d;
    m[5 * t] = y3;
}

// A transform in two dimensions: of each column of from × wide numbers that are loaded, then of each row.
template <long wide, long from, long to, typename Load, typename Transform>
inline void columns(Load number, Floats* half, Transform transform) {
#pragma GCC unroll 6
    for (long j = 0; j < wide; ++j) {
        Floats d[from];
#pragma GCC unroll 6
        for (long i = 0; i < from; ++i) d[i] = number(wide * i + j);
        transform(d, 1, half + j, wide);
    }
}
template <long high, long from, long to, typename Transform, typename Store>
inline void rows(const Floats* half, Transform transform, Store keep) {
#pragma GCC unroll 6
    for (long i = 0; i < high; ++i) {
        Floats d[to];
        transform(half + from * i, 1, d, 1);
#pragma GCC unroll 6
        for (long j = 0; j < to; ++j) keep(to * i + j, d[j]);
    }
}

const float G[6][3] = {{1.f / 4, 0, 0},
                       {-1.f / 6, -1.f / 6, -1.f / 6},
                       {-1.f / 6, 1.f / 6, -1.f / 6},
                       {1.f / 24, 1.f / 12, 1.f / 6},
                       {1.f / 24, -1.f / 12, 1.f / 6},
                       {0, 0, 1}};
