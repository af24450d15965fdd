// SPDX-License-Identifier: Apache-2.0
// Detects that another rank has been stopped (SIGSTOP), which does not show on a connection.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "trainer/ranks/fault_limits.hpp"

namespace autotuned::trainer {

// Ends processes (SIGKILL) that stay stopped while this one runs, and says so on standard error: the ranks that wait for
// them then see them end. A session that stops all ranks of a trainer at once does not count, nor does a process that a
// debugger has stopped. A thread of its own watches the processes; the functions are for one thread.
class StoppedWatch {
 public:
  struct Watched {
    pid_t process = 0;  // a child that nobody has reaped, or the parent
    std::string name;   // "rank 2 of 3"
  };

  explicit StoppedWatch(std::vector<Watched> watched,
                        std::chrono::milliseconds limit = kMaxStopped);
  ~StoppedWatch();
  StoppedWatch(const StoppedWatch&) = delete;
  StoppedWatch& operator=(const StoppedWatch&) = delete;

  // Whether this watch has ended the process.
  [[nodiscard]] bool has_ended(pid_t process) const;

 private:
  void look_until_over(std::chrono::milliseconds limit);

  std::vector<Watched> watched_;
  mutable std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::set<pid_t> ended_;
  std::thread thread_;
};

}  // namespace autotuned::trainer
