#include "buffer.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace binaryduo {

void FreeMemory::operator()(void* p) const { std::free(p); }

void* allocate_zeros(size_t bytes) {
    const size_t rounded = (bytes + 127) / 64 * 64;
    void* p = rounded < bytes ? nullptr : std::aligned_alloc(64, rounded);
    if (!p) throw std::bad_alloc();
    std::memset(p, 0, rounded);
    return p;
}

}  // namespace binaryduo
