#include "pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>

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

Pool::~Pool() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        ending_.store(true);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

size_t Pool::start(size_t threads) {
    std::lock_guard<std::mutex> lock(caller_);
    return grow(threads);
}

void Pool::run(size_t threads, size_t items, Task task) {
    std::unique_lock<std::mutex> caller(caller_, std::defer_lock);
    threads = std::min(threads, items);
    if (threads < 2 || !caller.try_lock() || (threads = std::min(threads, grow(threads))) < 2) {
        for (size_t item = 0; item < items; ++item) task.call(task.self, item, 0);
        return;
    }
    bool notify;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        items_ = items;
        task_ = task;
        error_ = nullptr;
        next_.store(0, std::memory_order_relaxed);
        busy_.store(threads - 1, std::memory_order_relaxed);
        round_.store((round_.load(std::memory_order_relaxed) / kMost + 1) * kMost + threads,
                     std::memory_order_release);
        notify = sleeping_ > 0;
    }
    if (notify) wake_.notify_all();
    take(0);
    // The workers finish their last item: microseconds, unless the machine has other work for their
    // cores.
    for (int i = 0; busy_.load(std::memory_order_acquire); ++i)
        if (i < 4096)
            relax();
        else
            std::this_thread::yield();
    if (error_) std::rethrow_exception(error_);
}

size_t Pool::grow(size_t threads) {
    try {
        while (workers_.size() + 1 < std::min<size_t>(threads, kMost - 1))
            workers_.emplace_back([this, number = workers_.size() + 1] { work(number); });
    } catch (const std::system_error&) {  // no room for another thread
    }
    return workers_.size() + 1;
}

void Pool::take(size_t thread) {
    for (size_t item; (item = next_.fetch_add(1, std::memory_order_relaxed)) < items_;) try {
            task_.call(task_.self, item, thread);
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!error_) error_ = std::current_exception();
        }
}

// A round's number and how many threads it is for are one word: a worker that is not for it may sleep
// through it, and never sees the one without the other.
void Pool::work(size_t thread) {
    uint64_t seen = 0;
    for (;;) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        uint64_t now;
        for (int i = 0; (now = round_.load(std::memory_order_acquire)) == seen || now % kMost <= thread;
             ++i) {
            relax();
            if (i % 64 || std::chrono::steady_clock::now() < deadline) continue;
            std::unique_lock<std::mutex> lock(mutex_);
            ++sleeping_;
            wake_.wait(lock, [&] {
                const uint64_t round = round_.load();
                return ending_.load() || (round != seen && round % kMost > thread);
            });
            --sleeping_;
            if (ending_.load()) return;
        }
        seen = now;
        take(thread);
        busy_.fetch_sub(1, std::memory_order_release);
    }
}

}  // namespace binaryduo
