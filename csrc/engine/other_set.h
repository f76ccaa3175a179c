// A set that adds one kind of binary convolution to another set: the other does the rest by its own functions
// (a second copy of them would make the library a third larger). Included inside the set's own namespace,
// after either_conv.h.

// The other set's binary convolutions, as a kind.
template <const Kernels* (*other)()>
struct OtherConv {
    static const char* name(const ConvShape& s) { return other()->binary_kernel(s); }
    static size_t weight_bytes(const ConvShape& s) { return other()->weight_bytes(s); }
    static void prepare_weights(const ConvShape& s, const uint8_t* weights, uint8_t* out) {
        other()->prepare_weights(s, weights, out);
    }
    static size_t stream_bytes(const ConvShape& s) { return other()->stream_bytes(s); }
    static size_t scratch_bytes(const ConvShape& s) { return other()->scratch_bytes(s); }
    static void prepare_row(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* stream,
                            uint16_t* counts, uint8_t* scratch) {
        other()->prepare_row(s, input, row, stream, counts, scratch);
    }
    static size_t items(const ConvShape& s) { return other()->binary_items(s); }
    static void item(const ConvShape& s, const uint8_t* stream, const uint16_t* counts,
                     const uint8_t* weights, const Epilogue& e, size_t number, uint8_t* scratch) {
        other()->binary_item(s, stream, counts, weights, e, number, scratch);
    }
};

// The other set's table, with First for the shapes that it suits.
template <typename First, const Kernels* (*other)()>
Kernels with_first(const char* name) {
    using Binary = EitherConv<First, OtherConv<other>>;
    Kernels k = *other();
    k.name = name;
    k.binary_kernel = Binary::name;
    k.weight_bytes = Binary::weight_bytes;
    k.prepare_weights = Binary::prepare_weights;
    k.stream_bytes = Binary::stream_bytes;
    k.prepare_row = Binary::prepare_row;
    k.binary_items = Binary::items;
    k.binary_item = Binary::item;
    k.scratch_bytes = [](const ConvShape& s) {  // float layers need the other's
        return std::max(Binary::scratch_bytes(s), other()->scratch_bytes(s));
    };
    return k;
}
