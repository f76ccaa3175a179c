#include "threads.h"

#include <chrono>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace binaryduo {
namespace {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

constexpr auto kPatience = std::chrono::microseconds(50);

}  // namespace

Threads::Threads(size_t count) {
    try {
        for (size_t i = 1; i < count; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (
        ...) {  // no room for another thread: those that wait already must not outlive what they wait for
        finish();
        throw;
    }
}

Threads::~Threads() { finish(); }

void Threads::finish() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
        round_.fetch_add(1);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void Threads::take(size_t thread) {
    for (size_t item; (item = next_.fetch_add(1, std::memory_order_relaxed)) < items_;)
        task_.call(task_.self, item, thread);
}

void Threads::work(size_t thread) {
    uint64_t seen = 0;
    for (;;) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        for (int i = 0; round_.load(std::memory_order_acquire) == seen; ++i) {
            relax();
            if (i % 64 || std::chrono::steady_clock::now() < deadline) continue;
            std::unique_lock<std::mutex> lock(mutex_);
            ++sleeping_;
            wake_.wait(lock, [&] { return round_.load() != seen; });
            --sleeping_;
        }
        seen = round_.load(std::memory_order_acquire);
        if (stop_) return;
        take(thread);
        busy_.fetch_sub(1, std::memory_order_release);
    }
}

void Threads::run(size_t items, Task task) {
    if (workers_.empty() || items < 2) {
        for (size_t item = 0; item < items; ++item) task.call(task.self, item, 0);
        return;
    }
    bool notify;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        items_ = items;
        task_ = task;
        next_.store(0, std::memory_order_relaxed);
        busy_.store(workers_.size(), std::memory_order_relaxed);
        round_.fetch_add(1, std::memory_order_release);
        notify = sleeping_ > 0;
    }
    if (notify) wake_.notify_all();
    take(0);
    // The workers finish their last item: microseconds, unless the machine has other work for their cores.
    for (int i = 0; busy_.load(std::memory_order_acquire); ++i)
        if (i < 4096)
            relax();
        else
            std::this_thread::yield();
}

}  // namespace binaryduo
