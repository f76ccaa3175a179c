// A pool of threads that share one list of numbered items. Between the operations of a run the workers look
// for work for some microseconds; when no run is going on they sleep.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace binaryduo {

class Threads {
  public:
    explicit Threads(size_t count);
    ~Threads();
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

    size_t count() const { return workers_.size() + 1; }

    // A reference to a callable task(item, thread); no allocation, unlike std::function.
    struct Task {
        void (*call)(void*, size_t item, size_t thread);
        void* self;
    };

    // Calls task for every item from 0 to items - 1, the caller being thread 0. Only one caller at a time.
    void run(size_t items, Task task);

  private:
    void finish();  // stops and joins all workers
    void work(size_t thread);
    void take(size_t thread);

    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<uint64_t> round_{0};
    std::atomic<size_t> next_{0}, busy_{0};
    size_t items_ = 0, sleeping_ = 0;
    Task task_{};
    bool stop_ = false;
};

}  // namespace binaryduo
