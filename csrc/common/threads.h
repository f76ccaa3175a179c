// The process's one pool of threads: numbered items of work, taken one after another by whoever is free.
// Between the steps of a run the workers look for work for some microseconds; when there is none for longer
// they sleep.
//
// A child process that was made by fork() starts a pool of its own: threads do not survive a fork.
#pragma once
#include <cstddef>
#include <type_traits>

namespace binaryduo {

// A reference to a callable task(item, thread); no allocation, unlike std::function.
struct Task {
    void (*call)(void* self, size_t item, size_t thread);
    void* self;
};

// Starts workers until `threads` threads can share work, the caller included; returns how many there are:
// fewer where the system refuses to start more.
size_t start_threads(size_t threads);

// Calls task for every item from 0 to items - 1, on at most `threads` threads; the caller is thread 0, and
// every thread's number is below `threads`. Where another caller has the pool, this one works alone. Throws
// what a task has thrown, when all have ended.
using RunTask = void (*)(size_t threads, size_t items, Task task);
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
