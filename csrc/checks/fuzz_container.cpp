#include "fuzz_container.h"

#include <array>

namespace duo_file {
namespace {

constexpr size_t kTable = 24, kLine = 32;
constexpr uint32_t kVersion = 4;
constexpr uint8_t kMagic[] = {0x89, 'D', 'U', 'O', '\r', '\n', 0x1a, '\n'};
constexpr const char* kTags[] = {"TENS", "OPER", "META", "DATA"};

uint32_t crc32(const uint8_t* bytes, size_t size) {
    static const std::array<uint32_t, 256> table = [] {
        std::array<uint32_t, 256> made{};
        for (uint32_t i = 0; i < 256; ++i) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
            made[i] = c;
        }
        return made;
    }();
    uint32_t c = ~0u;
    for (size_t i = 0; i < size; ++i) c = table[(c ^ bytes[i]) & 255] ^ (c >> 8);
    return ~c;
}

struct Section {
    uint64_t offset, size, used;
    uint32_t crc;
    Section(const uint8_t* file, int part) {
        const uint8_t* line = file + kTable + part * kLine;
        crc = get<uint32_t>(line + 4);
        offset = get<uint64_t>(line + 8), size = get<uint64_t>(line + 16), used = get<uint64_t>(line + 24);
    }
};

}  // namespace

bool split(const uint8_t* file, size_t size, Bytes (&parts)[kParts], bool strict) {
    if (size < kHeader) return false;
    if (strict &&
        (std::memcmp(file, kMagic, 8) || get<uint32_t>(file + 8) < 1 || get<uint32_t>(file + 8) > kVersion ||
         get<uint32_t>(file + 12) != kParts || get<uint64_t>(file + 16) != size ||
         crc32(file, kHeader - 4) != get<uint32_t>(file + kHeader - 4)))
        return false;
    uint64_t expected = kHeader;
    for (int i = 0; i < kParts; ++i) {
        const Section s(file, i);
        if (s.offset > size || s.size > size - s.offset || s.used > s.size) return false;
        if (strict && (std::memcmp(file + kTable + i * kLine, kTags[i], 4) || s.offset != expected ||
                       s.size % kAlign || crc32(file + s.offset, s.size) != s.crc))
            return false;
        parts[i].assign(file + s.offset, file + s.offset + s.used);
        expected = s.offset + s.size;
    }
    return !strict || expected == size;
}

void repair_header(Bytes& file) { put(file.data() + kHeader - 4, crc32(file.data(), kHeader - 4)); }

Bytes join(const Bytes (&parts)[kParts]) {
    Bytes file(kHeader);
    std::memcpy(file.data(), kMagic, 8);
    put<uint32_t>(file.data() + 8, kVersion);
    put<uint32_t>(file.data() + 12, kParts);
    for (int i = 0; i < kParts; ++i) {
        const size_t offset = file.size(), used = parts[i].size();
        file.insert(file.end(), parts[i].begin(), parts[i].end());
        file.resize((file.size() + kAlign - 1) / kAlign * kAlign);
        uint8_t* line = file.data() + kTable + i * kLine;
        std::memcpy(line, kTags[i], 4);
        put(line + 4, crc32(file.data() + offset, file.size() - offset));
        put<uint64_t>(line + 8, offset);
        put<uint64_t>(line + 16, file.size() - offset);
        put<uint64_t>(line + 24, used);
    }
    put<uint64_t>(file.data() + 16, file.size());
    repair_header(file);
    return file;
}

}  // namespace duo_file
