#include "threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

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

class Pool {
  public:
    size_t start(size_t threads) {
        std::lock_guard<std::mutex> lock(caller_);
        return grow(threads);
    }

    void run(size_t threads, size_t items, Task task) {
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

  private:
    static constexpr uint64_t kMost = 4096;  // threads that a round's number leaves room for

    size_t grow(size_t threads) {
        try {
            while (workers_ + 1 < std::min<size_t>(threads, kMost - 1)) {
                std::thread([this, number = workers_ + 1] { work(number); }).detach();
                ++workers_;
            }
        } catch (const std::system_error&) {  // no room for another thread
        }
        return workers_ + 1;
    }

    void take(size_t thread) {
        for (size_t item; (item = next_.fetch_add(1, std::memory_order_relaxed)) < items_;) try {
                task_.call(task_.self, item, thread);
            } catch (...) {
                std::lock_guard<std::mutex> lock(mutex_);
                if (!error_) error_ = std::current_exception();
            }
    }

    // A round's number and how many threads it is for are one word: a worker that is not for it may sleep
    // through it, and never sees the one without the other.
    void work(size_t thread) {
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
                    return round != seen && round % kMost > thread;
                });
                --sleeping_;
            }
            seen = now;
            take(thread);
            busy_.fetch_sub(1, std::memory_order_release);
        }
    }

    std::mutex caller_;   // held by whoever runs a task
    size_t workers_ = 0;  // started, beside the caller
    std::mutex mutex_;    // of what follows
    std::condition_variable wake_;
    std::atomic<uint64_t> round_{0};
    std::atomic<size_t> next_{0}, busy_{0};
    size_t items_ = 0, sleeping_ = 0;
    Task task_{};
    std::exception_ptr error_;
};

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
