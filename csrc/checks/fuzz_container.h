// A .duo file in its parts and back, with right checksums and lengths, for the fuzzer; and the checks of the
// container that `load` does before it looks at a part. The format is on one page: docs/format.md.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

namespace duo_file {

using Bytes = std::vector<uint8_t>;
enum Part { kTensors, kOps, kMeta, kData, kParts };
constexpr size_t kHeader = 192, kAlign = 64;

template <typename T>
T get(const uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}
template <typename T>
void put(uint8_t* at, T value) {
    std::memcpy(at, &value, sizeof(T));
}

// The used bytes of each part. `strict`: only of a file whose every checksum, length and place is right.
bool split(const uint8_t* file, size_t size, Bytes (&parts)[kParts], bool strict);

// The file of these parts.
Bytes join(const Bytes (&parts)[kParts]);

// Makes the header's own checksum right.
void repair_header(Bytes& file);

}  // namespace duo_file
