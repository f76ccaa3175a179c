// Numbers in a file's bytes, and how a file is refused.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace binaryduo {

[[noreturn]] inline void refuse(const std::string& what) { throw std::invalid_argument(what); }

template <typename T>
T read(const uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}

}  // namespace binaryduo
