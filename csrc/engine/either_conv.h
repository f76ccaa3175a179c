// A set that adds one kind of binary convolution to another set: `First` for the shapes that it `suits`, else
// what the other set does, by the other's own functions (a second copy of them would make the library a third
// larger). Included inside the set's own namespace. Weights are laid out once for any number of images, so
// that suits() must not look at these.

template <typename First, const Kernels* (*other)()>
struct EitherConv {
    static const char* name(const ConvShape& s) {
        return First::suits(s) ? First::name(s) : other()->binary_kernel(s);
    }
    static size_t weight_bytes(const ConvShape& s) {
        return First::suits(s) ? First::weight_bytes(s) : other()->weight_bytes(s);
    }
    static void prepare_weights(const ConvShape& s, const uint8_t* weights, uint8_t* out) {
        (First::suits(s) ? First::prepare_weights : other()->prepare_weights)(s, weights, out);
    }
    static size_t stream_bytes(const ConvShape& s) {
        return First::suits(s) ? First::stream_bytes(s) : other()->stream_bytes(s);
    }
    static size_t scratch_bytes(const ConvShape& s) {  // float layers need the other's
        return std::max(First::suits(s) ? First::scratch_bytes(s) : 0, other()->scratch_bytes(s));
    }
    static void prepare_row(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* stream,
                            uint16_t* counts, uint8_t* scratch) {
        (First::suits(s) ? First::prepare_row : other()->prepare_row)(s, input, row, stream, counts, scratch);
    }
    static size_t items(const ConvShape& s) {
        return First::suits(s) ? First::items(s) : other()->binary_items(s);
    }
    static void item(const ConvShape& s, const uint8_t* stream, const uint16_t* counts,
                     const uint8_t* weights, const Epilogue& e, size_t number, uint8_t* scratch) {
        (First::suits(s) ? First::item : other()->binary_item)(s, stream, counts, weights, e, number,
                                                               scratch);
    }
};

// The other set's table with First in front.
template <typename First, const Kernels* (*other)()>
Kernels instead(const char* name) {
    using Binary = EitherConv<First, other>;
    Kernels k = *other();
    k.name = name;
    k.binary_kernel = Binary::name;
    k.weight_bytes = Binary::weight_bytes;
    k.prepare_weights = Binary::prepare_weights;
    k.stream_bytes = Binary::stream_bytes;
    k.prepare_row = Binary::prepare_row;
    k.binary_items = Binary::items;
    k.binary_item = Binary::item;
    k.scratch_bytes = Binary::scratch_bytes;
    return k;
}
