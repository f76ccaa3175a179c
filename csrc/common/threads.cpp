#include "threads.h"

#include <pthread.h>

#include <atomic>

namespace binaryduo {
namespace {

// Never destroyed: its workers may outlive whatever the end of the process destroys first.
std::atomic<Pool*> pool{nullptr};
std::atomic<RunTask> other_pool{nullptr};

Pool& shared_pool() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { pool.store(nullptr); });
    (void)registered;
    Pool* found = pool.load();
    if (found) return *found;
    Pool* made = new Pool;
    if (pool.compare_exchange_strong(found, made)) return *made;
    delete made;
    return *found;
}

}  // namespace

size_t start_threads(size_t threads) { return shared_pool().start(threads); }

void run_on_threads(size_t threads, size_t items, Task task) {
    if (const RunTask other = other_pool.load(std::memory_order_relaxed))
        other(threads, items, task);
    else
        shared_pool().run(threads, items, task);
}

void use_pool_of(RunTask other) { other_pool.store(other); }

}  // namespace binaryduo
