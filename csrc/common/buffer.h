// Memory for vectors: aligned to 64 bytes, filled with zeros, with room after its end for a last load.
#pragma once
#include <cstddef>
#include <memory>

namespace binaryduo {

struct FreeMemory {
    void operator()(void* p) const;
};
template <typename T>
using Buffer = std::unique_ptr<T[], FreeMemory>;

// At least 64 bytes more than asked for; throws std::bad_alloc.
void* allocate_zeros(size_t bytes);

template <typename T>
Buffer<T> zeros(size_t count) {
    return Buffer<T>(static_cast<T*>(allocate_zeros(count * sizeof(T))));
}

}  // namespace binaryduo
