// The .duo file around a program: header, section table, checksums. docs/format.md gives every byte.
#pragma once
#include <cstddef>
#include <cstdint>

namespace binaryduo {

struct Section {
    const uint8_t* data;
    size_t bytes;
};
struct Sections {
    Section tensors, ops, meta, data;
};

// Verifies every checksum. Throws std::invalid_argument with one sentence on anything that is not as it
// should be.
Sections read_sections(const uint8_t* content, size_t bytes);

// A file's bytes, mapped as long as this lives.
class MappedFile {
  public:
    MappedFile() = default;
    // Throws std::system_error where it cannot be read.
    explicit MappedFile(const char* path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&&) = delete;
    ~MappedFile();
    const uint8_t* data() const { return data_; }
    size_t size() const { return size_; }

  private:
    const uint8_t* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace binaryduo
