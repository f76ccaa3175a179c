// Threads for one step of a training kernel.
#pragma once
#include <thread>
#include <vector>

namespace binaryduo {

// Calls work(thread) for every thread from 0 to threads - 1 at once.
template <typename Work>
void parallel(int threads, Work work) {
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
    for (auto& other : others) other.join();
}

inline long round_up(long n, long to) { return (n + to - 1) / to * to; }

}  // namespace binaryduo
