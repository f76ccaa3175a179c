#include "file.h"

#include <cstring>
#include <string>

#include "reading.h"

namespace binaryduo {
namespace {

constexpr uint8_t kMagic[8] = {0x89, 'D', 'U', 'O', '\r', '\n', 0x1a, '\n'};
constexpr uint32_t kVersion = 4, kSections = 4;
constexpr size_t kHeader = 192, kSectionTable = 24, kSectionRecord = 32, kAlignment = 64;

// CRC-32 as zlib has it, four bytes a step: table[k][b] is byte b followed by k zero bytes.
struct CrcTables {
    uint32_t table[4][256];
    constexpr CrcTables() : table() {
        for (uint32_t b = 0; b < 256; ++b) {
            uint32_t crc = b;
            for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
            table[0][b] = crc;
        }
        for (int k = 1; k < 4; ++k)
            for (uint32_t b = 0; b < 256; ++b)
                table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
    }
};
constexpr CrcTables kCrc;

uint32_t crc32(const uint8_t* p, size_t bytes) {
    uint32_t crc = ~0u;
    for (; bytes >= 4; bytes -= 4, p += 4) {
        crc ^= read<uint32_t>(p);
        crc = kCrc.table[3][crc & 255] ^ kCrc.table[2][crc >> 8 & 255] ^ kCrc.table[1][crc >> 16 & 255] ^
              kCrc.table[0][crc >> 24];
    }
    for (; bytes; --bytes) crc = crc >> 8 ^ kCrc.table[0][(crc ^ *p++) & 255];
    return ~crc;
}

}  // namespace

Sections read_sections(const uint8_t* content, size_t bytes) {
    if (bytes < kHeader) refuse("it has " + std::to_string(bytes) + " bytes, fewer than a header");
    if (std::memcmp(content, kMagic, sizeof kMagic)) refuse("its first bytes are not those of a .duo file");
    if (crc32(content, kHeader - 4) != read<uint32_t>(content + kHeader - 4))
        refuse("its header is altered (the checksum differs)");
    if (const uint32_t version = read<uint32_t>(content + 8); version < 1 || version > kVersion)
        refuse("it has the format version " + std::to_string(version) +
               ", and this release reads versions 1 to " + std::to_string(kVersion));
    if (const uint64_t length = read<uint64_t>(content + 16); length != bytes)
        refuse("it has " + std::to_string(bytes) + " bytes where its header says " + std::to_string(length));
    if (const uint32_t count = read<uint32_t>(content + 12); count != kSections)
        refuse("it has " + std::to_string(count) + " sections instead of " + std::to_string(kSections));
    static const char kTags[kSections][5] = {"TENS", "OPER", "META", "DATA"};
    Section found[kSections];
    size_t expected = kHeader;
    for (size_t i = 0; i < kSections; ++i) {
        const uint8_t* r = content + kSectionTable + i * kSectionRecord;
        const uint64_t offset = read<uint64_t>(r + 8), size = read<uint64_t>(r + 16),
                       used = read<uint64_t>(r + 24);
        if (std::memcmp(r, kTags[i], 4) || offset != expected || size > bytes - expected || used > size ||
            size % kAlignment)
            refuse("its section " + std::to_string(i) + " is not where it should be");
        if (crc32(content + expected, size_t(size)) != read<uint32_t>(r + 4))
            refuse("its section " + std::string(kTags[i]) + " is altered (the checksum differs)");
        found[i] = {content + expected, size_t(used)};
        expected += size_t(size);
    }
    if (expected != bytes) refuse("there are bytes after its last section");
    return {found[0], found[1], found[2], found[3]};
}

}  // namespace binaryduo
