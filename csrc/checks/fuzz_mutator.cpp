// How the fuzzer alters a .duo file: a field of a record, a whole record, the data, or a size wherever it
// occurs; then every length and checksum is made right again, so that the deep reader is reached and not the
// container's checks.
#include <algorithm>
#include <iterator>
#include <random>
#include <tuple>

#include "fuzz_container.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size, size_t most);

namespace {

using namespace duo_file;

constexpr size_t kTensorRecord = 32, kOpRecord = 128, kTensorWords = 6, kOpWords = 16, kOffsets = 64;

class Mutation {
  public:
    Mutation(Bytes (&parts)[kParts], unsigned seed) : parts_(parts), luck_(seed) {}

    void apply() {
        switch (below(12)) {
            case 0:
            case 1:
            case 2:
                return field(kOps, kOpRecord, kOpWords);
            case 3:
                return field(kTensors, kTensorRecord, kTensorWords);
            case 4:
            case 5:
                return size_everywhere();
            case 6:
                return data_offset();
            case 7:
                return record(kOps, kOpRecord);
            case 8:
                return record(kTensors, kTensorRecord);
            case 9:
                return special_number();
            case 10:
                return bytes(kData, parts_[kData].size() + 256);
            default:
                return bytes(below(3), 1 << 14);
        }
    }

    size_t below(size_t limit) { return limit ? luck_() % limit : 0; }

  private:
    uint32_t value(uint32_t old) {
        static const uint32_t telling[] = {
            0,     1,     2,        3,        7,        8,          9,          15,      16,  17,   31,
            32,    33,    63,       64,       65,       127,        128,        255,     256, 4096, 4097,
            65535, 65536, 1u << 20, 1u << 28, 1u << 30, 0x7FFFFFFF, 0x80000000, ~0u - 1, ~0u};
        switch (below(4)) {
            case 0:
                return telling[below(std::size(telling))];
            case 1:
                return old + (below(2) ? 1 : -1);
            case 2:
                return old ^ (1u << below(below(2) ? 8 : 32));
            default:
                return below(2) ? old * 2 : old / 2;
        }
    }

    uint8_t* any_record(int part, size_t record) {
        const size_t count = parts_[part].size() / record;
        return count ? parts_[part].data() + below(count) * record : nullptr;
    }

    void field(int part, size_t record, size_t words) {
        uint8_t* r = any_record(part, record);
        if (!r) return;
        uint8_t* at = r + 4 * below(words);
        const uint8_t* other = any_record(part, record) + (at - r);
        put(at, below(4) ? value(get<uint32_t>(at)) : get<uint32_t>(other));
    }

    // A number of channels, a side or a window changes at most or all places where it stands, so that what
    // depends on it stays consistent; the data grows, so that larger weights find room.
    void size_everywhere() {
        uint8_t* r = any_record(kTensors, kTensorRecord);
        if (!r) return;
        const uint32_t old = get<uint32_t>(r + 8 + 4 * below(3)), now = value(old);
        const bool all = below(4);
        for (const auto& [part, record, words] :
             {std::tuple(kTensors, kTensorRecord, kTensorWords), std::tuple(kOps, kOpRecord, kOpWords)})
            for (size_t at = 0; at + record <= parts_[part].size(); at += record)
                for (size_t word = part == kTensors ? 2 : 6; word < words; ++word) {
                    uint8_t* p = parts_[part].data() + at + 4 * word;
                    if (get<uint32_t>(p) == old && (all || below(3))) put(p, now);
                }
        if (now > old && now < 4096 && parts_[kData].size() < (1 << 15))
            parts_[kData].resize(parts_[kData].size() + below(4096), uint8_t(luck_()));
    }

    void data_offset() {
        uint8_t* r = any_record(kOps, kOpRecord);
        if (!r) return;
        uint8_t* at = r + kOffsets + 8 * below(5);
        const uint8_t* other = any_record(kOps, kOpRecord) + kOffsets + 8 * below(5);
        const uint64_t near_end = parts_[kData].size() - std::min<size_t>(parts_[kData].size(), below(200));
        const uint64_t choices[] = {~uint64_t(0),
                                    get<uint64_t>(other),
                                    near_end,
                                    near_end & ~uint64_t(3),
                                    get<uint64_t>(at) + 4 * below(5),
                                    uint64_t(luck_()) << 32 | luck_()};
        put(at, choices[below(std::size(choices))]);
    }

    void record(int part, size_t size) {
        Bytes& table = parts_[part];
        const size_t count = table.size() / size;
        if (!count) return;
        const size_t from = below(count) * size, to = below(count) * size;
        const Bytes copy(table.begin() + from, table.begin() + from + size);
        switch (below(3)) {
            case 0:
                if (count > 1) table.erase(table.begin() + from, table.begin() + from + size);
                return;
            case 1:
                if (count < 40) table.insert(table.begin() + to, copy.begin(), copy.end());
                return;
            default:
                std::swap_ranges(table.begin() + from, table.begin() + from + size, table.begin() + to);
        }
    }

    // NaN, infinities, the smallest and the largest numbers among weights and thresholds.
    void special_number() {
        static const uint32_t special[] = {0x7FC00000, 0x7F800000, 0xFF800000, 0x00000001, 0x80000000,
                                           0x7F7FFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7C007E00};
        const size_t places = parts_[kData].size() / 4;
        if (places) put(parts_[kData].data() + 4 * below(places), special[below(std::size(special))]);
    }

    void bytes(int part, size_t most) {
        Bytes& content = parts_[part];
        const size_t before = content.size();
        content.resize(std::max(before, std::min<size_t>(most, before + 256)));
        if (!content.empty()) content.resize(LLVMFuzzerMutate(content.data(), before, content.size()));
    }

    Bytes (&parts_)[kParts];
    std::minstd_rand luck_;
};

size_t hand_over(const Bytes& file, uint8_t* bytes, size_t size, size_t most) {
    if (file.size() > most) return size;
    std::memcpy(bytes, file.data(), file.size());
    return file.size();
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* bytes, size_t size, size_t most, unsigned seed) {
    Bytes parts[kParts];
    if (!split(bytes, size, parts, false)) return LLVMFuzzerMutate(bytes, size, most);
    Mutation mutation(parts, seed * 2654435761u + 1);
    for (size_t times = 1 + mutation.below(3); times--;) mutation.apply();
    Bytes file = join(parts);
    if (!mutation.below(50)) {  // the header's own fields, with a right checksum
        LLVMFuzzerMutate(file.data() + 8, kHeader - 12, kHeader - 12);
        repair_header(file);
    }
    return hand_over(file, bytes, size, most);
}

// The tables of one file with the data or the tensors of another.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* one, size_t one_size, const uint8_t* other,
                                            size_t other_size, uint8_t* out, size_t most, unsigned seed) {
    Bytes parts[kParts], others[kParts];
    if (!split(one, one_size, parts, false) || !split(other, other_size, others, false)) return 0;
    parts[seed % kParts].swap(others[seed % kParts]);
    const size_t size = hand_over(join(parts), out, 0, most);
    return size;
}
