// Two kinds of binary convolution as one: `First` for the shapes that it `suits`, else `Second`. Included
// inside the namespaces of the sets that have several. Weights are laid out once for any number of images, so
// that suits() must not look at them.

template <typename First, typename Second>
struct EitherConv {
    static const char* name(const ConvShape& s) { return First::suits(s) ? First::name(s) : Second::name(s); }
    static size_t weight_bytes(const ConvShape& s) {
        return First::suits(s) ? First::weight_bytes(s) : Second::weight_bytes(s);
    }
    static void prepare_weights(const ConvShape& s, const uint8_t* weights, uint8_t* out) {
        (First::suits(s) ? First::prepare_weights : Second::prepare_weights)(s, weights, out);
    }
    static size_t stream_bytes(const ConvShape& s) {
        return First::suits(s) ? First::stream_bytes(s) : Second::stream_bytes(s);
    }
    static size_t scratch_bytes(const ConvShape& s) {
        return First::suits(s) ? First::scratch_bytes(s) : Second::scratch_bytes(s);
    }
    static void prepare_row(const ConvShape& s, const uint8_t* input, size_t row, uint8_t* stream,
                            uint16_t* counts, uint8_t* scratch) {
        (First::suits(s) ? First::prepare_row : Second::prepare_row)(s, input, row, stream, counts, scratch);
    }
    static size_t items(const ConvShape& s) { return First::suits(s) ? First::items(s) : Second::items(s); }
    static void item(const ConvShape& s, const uint8_t* stream, const uint16_t* counts,
                     const uint8_t* weights, const Epilogue& e, size_t number, uint8_t* scratch) {
        (First::suits(s) ? First::item : Second::item)(s, stream, counts, weights, e, number, scratch);
    }
};
