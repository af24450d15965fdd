// SPDX-License-Identifier: Apache-2.0
#include "base/process/stopped_process.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/process/process.hpp"

namespace autotuned {
namespace {

using std::chrono::milliseconds;

Process sleeper_to_stop() {
  ProcessSpec spec;
  spec.program = "/bin/sleep";
  spec.arguments = {"1000"};
  return Process::start(spec).value();
}

// A signal takes a moment to arrive; the limit of the test ends the wait.
void signal_until(Process& process, int signal, bool stopped) {
  process.signal_group(signal);
  while (is_stopped(process.pid()) != stopped)
    std::this_thread::sleep_for(milliseconds(1));
}

TEST(StoppedTime, IsThatBetweenLooksThatSeeItStopped) {
  Process process = sleeper_to_stop();
  StoppedTime stopped(process.pid());
  auto now = StoppedTime::Clock::now();
  EXPECT_EQ(stopped.look(now), milliseconds(0));
  signal_until(process, SIGSTOP, /*stopped=*/true);
  EXPECT_EQ(stopped.look(now += milliseconds(500)), milliseconds(0)) << "it may just have begun";
  EXPECT_EQ(stopped.look(now += milliseconds(500)), milliseconds(500));
  EXPECT_EQ(stopped.look(now += milliseconds(250)), milliseconds(750));
  EXPECT_EQ(stopped.look(now += std::chrono::hours(1)), milliseconds(1750)) << "a late look";
  EXPECT_EQ(stopped.time(), milliseconds(1750));
  signal_until(process, SIGCONT, /*stopped=*/false);
  EXPECT_EQ(stopped.look(now += milliseconds(500)), milliseconds(0));
  signal_until(process, SIGSTOP, /*stopped=*/true);
  EXPECT_EQ(stopped.look(now += milliseconds(500)), milliseconds(0)) << "it begins anew";
}

TEST(IsStopped, IsFalseOfAProcessThatRunsOrHasEnded) {
  EXPECT_FALSE(is_stopped(::getpid()));
  Process process = sleeper_to_stop();
  signal_until(process, SIGSTOP, /*stopped=*/true);
  process.signal_group(SIGKILL);
  ASSERT_TRUE(process.wait(std::chrono::nanoseconds(-1)));
  EXPECT_FALSE(is_stopped(process.pid())) << "nobody has reaped it";
}

}  // namespace
}  // namespace autotuned
