// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/stopped_watch.hpp"

#include <gmock/gmock.h>

#include <csignal>

#include "base/process/process.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::chrono::seconds kLimit(1);

Process sleeper() {
  ProcessSpec spec;
  spec.program = "/bin/sleep";
  spec.arguments = {"1000"};
  auto process = Process::start(spec);
  EXPECT_TRUE(process) << process.error().message();
  return std::move(*process);
}

TEST(StoppedWatch, EndsWhatStaysStoppedAndNothingElse) {
  Process stopped = sleeper();
  Process running = sleeper();
  const StoppedWatch watch({{stopped.pid(), "rank 1 of 3"}, {running.pid(), "rank 2 of 3"}},
                           kLimit);
  stopped.signal_group(SIGSTOP);
  const auto exit = stopped.wait(std::chrono::nanoseconds(-1));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->signal, SIGKILL);
  EXPECT_TRUE(watch.has_ended(stopped.pid()));
  EXPECT_FALSE(watch.has_ended(running.pid()));
  EXPECT_FALSE(running.wait(std::chrono::nanoseconds(0)));
}

// However many ranks there are.
TEST(FaultLimits, LeaveHalfAMinute) {
  static_assert(kMaxUntilVerdict < std::chrono::seconds(30));
  static_assert(kMaxUntilVerdict >= kMaxStopped + kExchangeEndLimit + kFailurePatience + kEndLimit);
  static_assert(kMaxUntilVerdict >= kJoinLimit + kFailurePatience + kEndLimit);
}

TEST(StoppedWatch, EndsAtOnceWithItsOwner) {
  Process running = sleeper();
  { const StoppedWatch watch({{running.pid(), "rank 1 of 2"}}, std::chrono::hours(1)); }
  EXPECT_FALSE(running.wait(std::chrono::nanoseconds(0)));
}

}  // namespace
}  // namespace autotuned::trainer
