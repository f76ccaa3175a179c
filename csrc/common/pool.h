// A pool of threads: numbered items of work, taken one after another by whoever is free. Between the steps of
// a run the workers look for work for some microseconds; when there is none for longer they sleep.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace binaryduo {

// A reference to a callable task(item, thread); no allocation, unlike std::function.
struct Task {
    void (*call)(void* self, size_t item, size_t thread);
    void* self;
};

class Pool {
  public:
    Pool() = default;
    Pool(const Pool&) = delete;
    ~Pool();  // waits for the workers

    // Starts workers until `threads` threads can share work, the caller included; returns how many there are:
    // fewer where the system refuses to start more.
    size_t start(size_t threads);

    // Calls task for every item from 0 to items - 1, on at most `threads` threads; the caller is thread 0,
    // and every thread's number is below `threads`. Where another caller has the pool, this one works alone.
    // Throws what a task has thrown, when all have ended.
    void run(size_t threads, size_t items, Task task);

  private:
    static constexpr uint64_t kMost = 4096;  // threads that a round's number leaves room for

    size_t grow(size_t threads);
    void take(size_t thread);
    void work(size_t thread);

    std::mutex caller_;  // held by whoever runs a task
    std::vector<std::thread> workers_;
    std::mutex mutex_;  // of what follows
    std::condition_variable wake_;
    std::atomic<uint64_t> round_{0};
    std::atomic<size_t> next_{0}, busy_{0};
    std::atomic<bool> ending_{false};
    size_t items_ = 0, sleeping_ = 0;
    Task task_{};
    std::exception_ptr error_;
};

}  // namespace binaryduo
