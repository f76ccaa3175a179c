// Convolutions in groups of few input channels, depthwise ones among them, shared by all instruction sets and
// included inside each one's own namespace.
//
// A group has too few products for a kernel that shares inputs between output channels. So the input is
// spread out first, once for each pixel: plane i of a pixel holds for every output channel c input i of c's
// group (GroupSpread in runner.h), and a sum is Σ plane[tap][i][c] · weight[tap][i][c]: whole vectors of
// channels, whatever the groups. Weights lie the same way.

constexpr size_t kSpreadBytes = 64, kSpreadFloats = 32;  // channels whose sums registers hold

// One row of output pixels. Bits are bytes 0 and -1, weights -1 and +1; the sums of up to 127 products fit
// into bytes.
inline void grouped_bits_row(const ConvShape& s, const uint8_t* spread, const int8_t* weights, size_t row,
                             float* sums) {
    const size_t planes = s.unit / s.channels;
    Place place(s, row * s.out_width);
    for (size_t x = 0; x < s.out_width; ++x, place.next(), sums += s.channels) {
        const uint8_t* start = spread + (place.row() * s.padded_width() + place.column()) * s.unit;
        for (size_t c = 0; c < s.channels; c += kSpreadBytes) {
            const size_t n = std::min(kSpreadBytes, s.channels - c);
            int16_t total[kSpreadBytes] = {};
            int8_t part[kSpreadBytes] = {};
            const int8_t* w = weights + c;
            size_t products = 0;
            const auto flush = [&] {
                for (size_t i = 0; i < kSpreadBytes; ++i) total[i] = int16_t(total[i] + part[i]), part[i] = 0;
            };
            for (size_t ky = 0; ky < s.kh; ++ky) {
                const uint8_t* in = start + ky * s.padded_width() * s.unit + c;
                for (size_t k = 0; k < s.kw * planes; ++k, in += s.channels, w += s.channels) {
                    if (n == kSpreadBytes)
                        for (size_t i = 0; i < kSpreadBytes; ++i) part[i] = int8_t(part[i] + (in[i] & w[i]));
                    else
                        for (size_t i = 0; i < n; ++i) part[i] = int8_t(part[i] + (in[i] & w[i]));
                    if (++products % 127 == 0) flush();
                }
            }
            flush();
            for (size_t i = 0; i < n; ++i) sums[c + i] = float(total[i]);
        }
    }
}

// The same for floats, every sum in the order (ky, kx, channel).
template <typename Policy>
void grouped_floats_row(const ConvShape& s, const float* spread, const float* weights, size_t row,
                        float* sums) {
    using Floats = typename Policy::Floats;
    constexpr size_t kLanes = Policy::kLanes, kVectors = kSpreadFloats / kLanes;
    const size_t planes = s.unit / s.channels;
    Place place(s, row * s.out_width);
    for (size_t x = 0; x < s.out_width; ++x, place.next(), sums += s.channels) {
        const float* start = spread + (place.row() * s.padded_width() + place.column()) * s.unit;
        for (size_t c = 0; c < s.channels; c += kSpreadFloats) {
            const size_t n = std::min(kSpreadFloats, s.channels - c), whole = n / kLanes, rest = n % kLanes;
            Floats sum[kVectors];
            for (size_t v = 0; v < kVectors; ++v) sum[v] = Floats{};
            const float* w = weights + c;
            for (size_t ky = 0; ky < s.kh; ++ky) {
                const float* in = start + ky * s.padded_width() * s.unit + c;
                for (size_t k = 0; k < s.kw * planes; ++k, in += s.channels, w += s.channels) {
                    if (n == kSpreadFloats) {
                        for (size_t v = 0; v < kVectors; ++v)
                            sum[v] += Policy::load(in + v * kLanes) * Policy::load(w + v * kLanes);
                        continue;
                    }
                    for (size_t v = 0; v < whole; ++v)
                        sum[v] += Policy::load(in + v * kLanes) * Policy::load(w + v * kLanes);
                    if (rest)
                        sum[whole] += Policy::load_some(in + whole * kLanes, rest) *
                                      Policy::load_some(w + whole * kLanes, rest);
                }
            }
            for (size_t v = 0; v < whole; ++v) Policy::store(sums + c + v * kLanes, sum[v]);
            if (rest) Policy::store_some(sums + c + whole * kLanes, sum[whole], rest);
        }
    }
}
