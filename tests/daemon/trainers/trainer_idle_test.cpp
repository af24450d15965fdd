// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_idle.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

namespace autotuned::daemon {
namespace {

using std::chrono::milliseconds;

// A child of this test that sleeps, or works and never ends; the destructor ends it.
class Child {
 public:
  explicit Child(bool is_busy) : process_(fork()) {
    if (process_ != 0) return;
    static volatile std::uint64_t sum = 0;
    for (;;) {
      if (is_busy) {
        sum = sum + 1;
      } else {
        pause();
      }
    }
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  [[nodiscard]] pid_t number() const { return process_; }

 private:
  pid_t process_;
};

TEST(TrainerRest, AProcessThatWaitsIsAtRest) {
  const Child child(/*is_busy=*/false);
  EXPECT_TRUE(wait_until_idle(child.number(), std::chrono::minutes(1)));
}

TEST(TrainerRest, AProcessThatWorksIsNot) {
  const Child child(/*is_busy=*/true);
  EXPECT_FALSE(wait_until_idle(child.number(), milliseconds(50)));
}

TEST(TrainerRest, AProcessThatHasEndedIsAtRest) {
  Child child(/*is_busy=*/true);
  const pid_t number = child.number();
  child.end();
  EXPECT_TRUE(wait_until_idle(number, milliseconds(50)));
}

TEST(TrainerRest, ATrainerGetsMuchLongerThanItsBlock) {
  Block block;
  block.duration_ns = 100'000'000;
  EXPECT_EQ(idle_limit({}, block, false), std::chrono::seconds(3));
  block.duration_ns = 1'000'000'000;
  EXPECT_EQ(idle_limit({}, block, false), std::chrono::seconds(20));
}

TEST(TrainerRest, OneThatIsNotGoingToRestGetsAMoment) {
  Block block;
  block.duration_ns = 1'000'000'000;
  EXPECT_LE(idle_limit({}, block, true), milliseconds(50));
  Configuration spins;
  spins.set("env.OMP_WAIT_POLICY", std::string("active"));
  EXPECT_LE(idle_limit(spins, block, false), milliseconds(50));
  EXPECT_GE(idle_limit(spins, block, false), milliseconds(10)) << "the threads may be too few";
}

}  // namespace
}  // namespace autotuned::daemon
