// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/measurement_lock.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/trainers/fake_session.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

// Once it was asked a few times.
class CancelledLater final : public CancelSource {
 public:
  [[nodiscard]] int descriptor() const override { return -1; }
  bool is_requested() override { return ++asked_ > 5; }

 private:
  int asked_ = 0;
};

class MeasurementLockTest : public testing::Test {
 protected:
  [[nodiscard]] MeasurementLock lock(nanoseconds limit) {
    return {file_, limit, [this](const std::string& text) { warnings_.push_back(text); }};
  }
  [[nodiscard]] Result<Descriptor> hold() const { return lock_file(file_, "process 7", false); }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "measurement.lock";
  CancelSwitch cancel_;
  std::vector<std::string> warnings_;
};

TEST_F(MeasurementLockTest, IsHeldUntilTheDescriptorCloses) {
  auto mine = lock(hours(1));
  auto held = mine.acquire(cancel_);
  ASSERT_TRUE(held);
  EXPECT_TRUE(held->is_open());
  EXPECT_FALSE(hold());
  held->reset();
  EXPECT_TRUE(hold());
}

TEST_F(MeasurementLockTest, WithoutAFileThereIsNobodyToWaitFor) {
  MeasurementLock none({}, hours(1), {});
  const auto held = none.acquire(cancel_);
  ASSERT_TRUE(held);
  EXPECT_FALSE(held->is_open());
}

TEST_F(MeasurementLockTest, ACancelEndsTheWaiting) {
  const auto other = hold();
  ASSERT_TRUE(other);
  auto mine = lock(hours(1));
  CancelledLater later;
  const auto held = mine.acquire(later);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().kind, ErrorKind::cancelled);
}

TEST_F(MeasurementLockTest, TheLimitEndsTheWaitingWithOneWarning) {
  auto other = hold();
  ASSERT_TRUE(other);
  auto mine = lock(nanoseconds(1));
  for (int i = 0; i < 3; ++i) {
    const auto held = mine.acquire(cancel_);
    ASSERT_TRUE(held);
    EXPECT_FALSE(held->is_open());
  }
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], testing::HasSubstr("process 7"));
  other->reset();
  EXPECT_TRUE(mine.acquire(cancel_)->is_open());
}

TEST_F(MeasurementLockTest, SaysOnceForWhomItWaits) {
  std::vector<std::string> holders;
  MeasurementLock mine(file_, nanoseconds(1), {},
                       [&](const std::string& who) { holders.push_back(who); });
  EXPECT_TRUE(mine.acquire(cancel_)->is_open());
  EXPECT_TRUE(holders.empty());
  const auto other = hold();
  ASSERT_TRUE(other);
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(mine.acquire(cancel_));
  EXPECT_THAT(holders, testing::ElementsAre("held by process 7"));
}

// Who waits is not who measures.
TEST_F(MeasurementLockTest, DoesNotNameOneThatWaits) {
  auto next = file_;
  next += ".next";
  const auto waiter = lock_file(next, "process 9", /*wait=*/false);
  ASSERT_TRUE(waiter);
  std::vector<std::string> told;
  const auto tell = [&](const std::string& text) { told.push_back(text); };
  MeasurementLock mine(file_, nanoseconds(1), tell, tell);
  ASSERT_TRUE(mine.acquire(cancel_));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], "other sessions wait for their turn, too");
  EXPECT_THAT(told[1], testing::Not(testing::HasSubstr("process 9")));
}

// A holder that wants it again at once must not keep the other from it for ever.
TEST_F(MeasurementLockTest, SessionsTakeTurns) {
  std::atomic<bool> has_other_had_it = false;
  auto mine = lock(hours(1));
  auto held = mine.acquire(cancel_);
  ASSERT_TRUE(held);
  std::jthread other([&] {
    CancelSwitch never;
    MeasurementLock theirs(file_, hours(1), {});
    EXPECT_TRUE(theirs.acquire(never)->is_open());
    has_other_had_it = true;
  });
  while (!has_other_had_it) {
    held->reset();
    held = mine.acquire(cancel_);
    ASSERT_TRUE(held);
  }
}

}  // namespace
}  // namespace autotuned::daemon
