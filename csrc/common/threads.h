// The one pool of threads of a Python process, which the engine's module and those of training share.
//
// A child process that was made by fork() starts a pool of its own: threads do not survive a fork.
#pragma once
#include <cstddef>
#include <type_traits>

#include "pool.h"

namespace binaryduo {

// Pool::start and Pool::run of the process's pool.
using RunTask = void (*)(size_t threads, size_t items, Task task);
size_t start_threads(size_t threads);
void run_on_threads(size_t threads, size_t items, Task task);

// Each extension module holds a copy of this code: all but one use the pool of that one.
void use_pool_of(RunTask other);

template <typename Work>
void share(size_t threads, size_t items, Work&& work) {
    if (threads < 2 || items < 2) {  // here, so that the compiler sees through the call
        for (size_t item = 0; item < items; ++item) work(item, size_t(0));
        return;
    }
    using Plain = typename std::remove_reference<Work>::type;
    run_on_threads(
        threads, items,
        {[](void* self, size_t item, size_t thread) { (*static_cast<Plain*>(self))(item, thread); },
         const_cast<void*>(static_cast<const void*>(&work))});
}

}  // namespace binaryduo
