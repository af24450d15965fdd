// SPDX-License-Identifier: Apache-2.0
#include "base/process/call_filter.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

namespace autotuned {
namespace {

#if defined(__x86_64__)

constexpr int kNoFilter = 77;  // exit code: this system has none

bool is_refused(long result) {
  return result == -1 && errno == EPERM;
}

// What the kernel would answer without the filter: EFAULT, because there are no attributes.
bool is_perf_refused() {
  return is_refused(::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0));
}

// Nothing but the filter refuses this; performance events are refused in most containers, too.
bool is_filtered() {
  return is_refused(::prctl(PR_SET_CHILD_SUBREAPER, 0));
}

bool can_open() {
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return file >= 0 && ::close(file) == 0;
}

// The exit code of a child that runs `work`; -1 if a signal ended it.
int exit_code_of(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// The same in a child that has the filter.
int confined(const std::function<int()>& work) {
  return exit_code_of([&work] { return refuse_calls_to_other_processes() ? work() : kNoFilter; });
}

class CallFilter : public testing::Test {
 protected:
  void SetUp() override {
    if (confined([] { return 0; }) == kNoFilter) GTEST_SKIP() << "seccomp is not available here";
  }
};

TEST_F(CallFilter, RefusesPerformanceEvents) {
  if (is_perf_refused()) GTEST_SKIP() << "this system refuses them without the filter";
  EXPECT_EQ(confined([] {
              perf_event_attr attributes{};
              attributes.type = PERF_TYPE_SOFTWARE;
              attributes.size = sizeof(attributes);
              attributes.config = PERF_COUNT_SW_CPU_CLOCK;
              attributes.sample_period = 10'000;
              attributes.exclude_kernel = 1;
              const long event = ::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
              return is_refused(event) && is_perf_refused() ? 0 : 1;
            }),
            0);
}

TEST_F(CallFilter, LeavesOtherCalls) {
  EXPECT_EQ(confined([] { return can_open() ? 0 : 1; }), 0);
}

TEST_F(CallFilter, RefusesToWriteToOtherProcesses) {
  // Without the filter: nothing to write, and no such descriptor.
  EXPECT_EQ(
      confined([] {
        const pid_t self = ::getpid();
        return is_refused(::syscall(SYS_process_vm_writev, self, nullptr, 0, nullptr, 0, 0)) &&
                       is_refused(::syscall(440, -1, nullptr, 0, 0, 0))
                   ? 0
                   : 1;
      }),
      0);
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_F(CallFilter, RefusesToTrace) {
  EXPECT_EQ(
      confined([] { return is_refused(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)) ? 0 : 1; }),
      0);
}
#endif

// A child of the session would be no descendant of its trainer.
TEST_F(CallFilter, RefusesToStartASibling) {
  EXPECT_EQ(confined([] {
              const long sibling = ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
              if (sibling == 0) ::_exit(0);
              return is_refused(sibling) ? 0 : 1;
            }),
            0);
}

TEST_F(CallFilter, RefusesToLetOrphansGo) {
  EXPECT_EQ(confined([] {
              int is_set = 0;
              return is_filtered() && ::prctl(PR_GET_CHILD_SUBREAPER, &is_set) == 0 ? 0 : 1;
            }),
            0);
}

// The C library asks for clone3 first.
TEST_F(CallFilter, LeavesThreadsAndPrograms) {
  EXPECT_EQ(confined([] {
              const long cloned = ::syscall(435, nullptr, 0);
              if (cloned != -1 || errno != ENOSYS) return 1;
              bool has_run = false;
              std::thread([&has_run] { has_run = true; }).join();
              if (!has_run) return 2;
              std::string name = "true";
              char* const arguments[] = {name.data(), nullptr};
              pid_t program = -1;
              if (::posix_spawnp(&program, "true", nullptr, nullptr, arguments, environ) != 0)
                return 3;
              int status = 0;
              return ::waitpid(program, &status, 0) == program && status == 0 ? 0 : 4;
            }),
            0);
}

// The same calls have other numbers there.
TEST_F(CallFilter, RefusesCallsOfX32) {
  EXPECT_EQ(confined([] { return is_refused(::syscall(SYS_getpid | 0x40000000)) ? 0 : 1; }), 0);
}

TEST_F(CallFilter, HoldsInChildren) {
  EXPECT_EQ(confined([] { return exit_code_of([] { return is_filtered() ? 0 : 1; }); }), 0);
}

TEST_F(CallFilter, HoldsInThreadsThatRanBefore) {
  EXPECT_EQ(exit_code_of([] {
              std::atomic<bool> has_filter = false;
              std::atomic<bool> is_left = true;
              std::thread before([&] {
                while (!has_filter)
                  std::this_thread::yield();
                is_left = !is_filtered();
              });
              const bool is_confined = refuse_calls_to_other_processes().has_value();
              has_filter = true;
              before.join();
              return is_confined && !is_left ? 0 : 1;
            }),
            0);
}

#else

TEST(CallFilter, IsOfOneArchitecture) {
  EXPECT_EQ(refuse_calls_to_other_processes().error().kind, ErrorKind::unsupported);
}

#endif

}  // namespace
}  // namespace autotuned
