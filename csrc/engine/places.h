// How the work of a convolution is cut, and where an output pixel's window starts. Included inside each
// instruction set's own namespace.

// `count` things in tiles of at most `most`, as equal as can be: a small last one would not pay.
inline size_t tiles_of(size_t count, size_t most) { return (count + most - 1) / most; }
inline size_t tile_of(size_t count, size_t most) {
    return (count + tiles_of(count, most) - 1) / tiles_of(count, most);
}

// An output pixel, and the first row and column of the padded input under it. Rows run over all images.
class Place {
  public:
    Place(const ConvShape& s, size_t pixel)
        : s_(s), x_(pixel % s.out_width), y_(pixel / s.out_width % s.out_height) {
        row_ = pixel / s.out_width / s.out_height * s.padded_height() + y_ * s.sh;
    }
    size_t row() const { return row_; }
    size_t column() const { return x_ * s_.sw; }
    void next() {
        if (++x_ == s_.out_width) next_row();
    }
    void next_row() {
        x_ = 0;
        row_ += s_.sh;
        if (++y_ < s_.out_height) return;
        y_ = 0;
        row_ += s_.padded_height() - s_.out_height * s_.sh;
    }

  private:
    const ConvShape& s_;
    size_t x_, y_, row_;
};
