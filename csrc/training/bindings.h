// What the modules of training have in common.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <type_traits>

#include "../common/bf16.h"
#include "../common/instruction_sets.h"
#include "../common/threads.h"

namespace binaryduo {

// Tensors come as addresses, which the caller has checked: no torch headers.
using Address = std::uintptr_t;
template <typename T = float>
const T* in(Address address) {
    return reinterpret_cast<const T*>(address);
}
template <typename T = float>
T* out(Address address) {
    return reinterpret_cast<T*>(address);
}

// Calls visit with a number of the type that the images have.
template <typename Visit>
void with_type(bool bf16, Visit visit) {
    if (bf16)
        visit(Bf16{});
    else
        visit(float{});
}

// Of a family's kernels, those for one type.
template <typename T, typename Kernels>
auto& passes(const Kernels& kernels) {
    if constexpr (std::is_same_v<T, float>)
        return kernels.float32;
    else
        return kernels.bfloat16;
}

// The engine's module owns the process's pool of threads.
inline void use_the_pool_of_the_engine() {
    const nanobind::object pool = nanobind::module_::import_("binaryduo.engine._native").attr("_thread_pool");
    use_pool_of(reinterpret_cast<RunTask>(nanobind::cast<nanobind::capsule>(pool).data()));
}

}  // namespace binaryduo
