// SPDX-License-Identifier: Apache-2.0
#include "bench/process_use.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>

namespace autotuned::bench {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20U;
constexpr std::int64_t kMax = kBytes;

// A child whose own child touches memory and uses CPU time, and then waits to be ended.
class Family {
 public:
  Family() {
    int ready[2] = {-1, -1};
    if (pipe(ready) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (fork() == 0) work(ready[1]);
      for (;;)
        pause();
    }
    close(ready[1]);
    char byte = 0;
    is_ready_ = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
  }
  ~Family() {
    for (const pid_t process : process_tree(child_))
      if (process > 0) kill(process, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  [[nodiscard]] bool is_ready() const { return is_ready_; }
  [[nodiscard]] pid_t child() const { return child_; }

 private:
  [[noreturn]] static void work(int ready) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) _exit(1);
    timespec used{};
    for (unsigned char i = 1; used.tv_sec == 0 && used.tv_nsec < 300'000'000; ++i) {
      std::memset(memory, i | 1, kBytes);
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    }
    if (write(ready, "r", 1) != 1) _exit(1);
    for (;;)
      pause();
  }

  pid_t child_ = -1;
  bool is_ready_ = false;
};

TEST(ProcessUse, CountsWhatChildrenOfChildrenUse) {
  const Family family;
  ASSERT_TRUE(family.is_ready());
  EXPECT_EQ(process_tree(family.child()).size(), 2U);
  EXPECT_GE(memory_of_tree(family.child()), kMax);
  EXPECT_GE(memory_of_tree(getpid()), kMax);
  // 300 ms, in ticks.
  EXPECT_GE(cpu_time_of_tree(family.child()), std::chrono::milliseconds(250));
}

TEST(ProcessUse, PeakIsNotForgotten) {
  PeakMemory peak(getpid());
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // many looks
  munmap(memory, kBytes);
  EXPECT_GE(peak.stop(), kMax);
}

TEST(ProcessUse, OfNobodyIsNothing) {
  constexpr pid_t kNobody = 1 << 29;
  EXPECT_EQ(memory_of_tree(kNobody), 0);
  EXPECT_EQ(cpu_time_of_tree(kNobody).count(), 0);
}

}  // namespace
}  // namespace autotuned::bench
