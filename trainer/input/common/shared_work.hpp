// SPDX-License-Identifier: Apache-2.0
// Optional work on many samples during a job: the job goes on without it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace autotuned::input {

struct SharedWork {
  std::int64_t items = 0;
  int threads = 1;  // the calling one among them
  std::chrono::nanoseconds most{0};
  std::function<bool()> is_cancelled;
};

// Calls worker(i) once for every i below `items`, in this order if there is one thread. The calling thread makes a
// worker for each thread with `make_worker`; if that fails, or a thread cannot be started, there are fewer threads.
// Returns when all items are done, or early: after `most`, if `is_cancelled` returns true (the calling thread asks it
// after each item of its own), or if a worker throws (if memory runs out, the job needs the rest).
template <class MakeWorker>
void share_work(const SharedWork& work, MakeWorker&& make_worker) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + work.most;
  std::atomic<std::int64_t> taken = 0;
  std::atomic<bool> is_over = false;
  const auto run = [&](auto& worker, bool may_ask) {
    try {
      for (std::int64_t item = 0; !is_over && (item = taken.fetch_add(1)) < work.items;) {
        worker(item);
        if (Clock::now() > deadline || (may_ask && work.is_cancelled())) is_over = true;
      }
    } catch (const std::exception&) {
      is_over = true;
    }
  };
  std::vector<std::jthread> others;
  try {
    auto own = make_worker();
    try {
      for (int i = 1; i < work.threads; ++i)
        others.emplace_back([&run, worker = make_worker()]() mutable { run(worker, false); });
    } catch (const std::exception&) {
    }
    run(own, true);
  } catch (const std::exception&) {
  }
}

}  // namespace autotuned::input
