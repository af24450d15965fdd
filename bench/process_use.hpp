// SPDX-License-Identifier: Apache-2.0
// What a process and all that it started use of the machine, by /proc.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace autotuned::bench {

// The rate of one block, and what it used.
struct LoadRate {
  double samples_per_second = 0.0;
  double samples_per_cpu_second = 0.0;  // what one core would do, if it did nothing else
};

// That this process used so far, all threads.
[[nodiscard]] std::chrono::nanoseconds own_cpu_time();

// The process first, then its children and theirs. Those that end meanwhile may be missing.
[[nodiscard]] std::vector<pid_t> process_tree(pid_t root);

// CPU time since each of them started, with children that have ended and were waited for. In ticks of the
// kernel, mostly 10 ms.
[[nodiscard]] std::chrono::nanoseconds cpu_time_of_tree(pid_t root);

// What they hold in memory, code included; pages of several processes are shared out among them (Pss).
[[nodiscard]] std::int64_t memory_of_tree(pid_t root);

// The most of that, looked at every 20 ms in a thread of its own, which takes time from what runs beside it.
class PeakMemory {
 public:
  explicit PeakMemory(pid_t root);
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;
  // Ends the watching. Once.
  [[nodiscard]] std::int64_t stop();

 private:
  std::int64_t most_bytes_ = 0;  // of the thread, until it has ended
  std::jthread watcher_;
};

// Runs this program with other arguments to its end and gives the most memory of it. Where it fails, so does
// the caller.
[[nodiscard]] std::int64_t memory_of_program(const std::vector<std::string>& arguments);

}  // namespace autotuned::bench
