// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/rank_group.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <functional>
#include <string>

#include "base/descriptor.hpp"
#include "tests/trainer/ranks/thread_ranks.hpp"

namespace autotuned::trainer {
namespace {

using testing::ElementsAre;

constexpr std::chrono::minutes kGroupPatience(1);

std::string error_of(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(RankGroup, TakesTheNumbersOfTheLeader) {
  for (const int ranks : {2, 3}) {
    as_ranks(ranks, kGroupPatience, [ranks](RankGroup& group) {
      EXPECT_EQ(group.ranks(), ranks);
      EXPECT_EQ(group.is_leader(), group.rank() == 0);
      std::array<double, 2> numbers = {group.rank() + 0.5, 7.0 * group.rank()};
      group.take_from_leader(numbers);
      EXPECT_THAT(numbers, ElementsAre(0.5, 0.0));
      EXPECT_FALSE(group.as_leader_says(!group.is_leader()));
      EXPECT_TRUE(group.as_leader_says(group.is_leader()));
    });
  }
}

TEST(RankGroup, TakesTheLargestNumbers) {
  as_ranks(3, kGroupPatience, [](RankGroup& group) {
    std::array<double, 3> numbers = {group.rank() + 0.5, -1.0 * group.rank(), 4e15};
    group.take_largest(numbers);
    EXPECT_THAT(numbers, ElementsAre(2.5, 0.0, 4e15));
  });
}

// One that has failed leaves, and nobody waits for it.
TEST(RankGroup, FailsAtOnceWhenTheLeaderHasLeft) {
  as_ranks(2, kGroupPatience, [](RankGroup& group) {
    if (group.is_leader()) return;
    const std::string error = error_of([&] { (void)group.as_leader_says(true); });
    EXPECT_TRUE(is_of_connection({ErrorKind::internal, error, "", ""})) << error;
  });
}

TEST(RankGroup, SaysWhoCannotReachTheOthers) {
  const Descriptor store(::memfd_create("ranks", MFD_CLOEXEC));
  const auto group = RankGroup::join(
      {.rank = 0, .ranks = 2, .store = "/proc/self/fd/" + std::to_string(store.get())},
      std::chrono::milliseconds(200));
  ASSERT_FALSE(group);
  EXPECT_THAT(group.error().what, testing::HasSubstr("rank 0 of 2 cannot reach the others"));
}

TEST(RankGroup, GoesOnAfterWhatAllRefuseOrStop) {
  EXPECT_TRUE(is_agreed(ErrorKind::cancelled));
  EXPECT_TRUE(is_agreed(ErrorKind::unsupported));
  EXPECT_FALSE(is_agreed(ErrorKind::out_of_memory));
  EXPECT_FALSE(is_agreed(ErrorKind::corrupt));
}

TEST(RankGroup, TellsAConnectionFromOtherErrors) {
  EXPECT_FALSE(is_of_connection({ErrorKind::invalid, "the loss is not finite at step 3", "", ""}));
  EXPECT_TRUE(
      is_of_connection({ErrorKind::internal,
                        "[x/gloo/transport/tcp/pair.cc:553] Connection closed by peer", "", ""}));
  EXPECT_TRUE(
      is_of_connection({ErrorKind::internal, "NCCL communicator was aborted on rank 0.", "", ""}));
  EXPECT_TRUE(is_of_connection(
      {ErrorKind::internal, "rank 1 of 2 has left, which ended the exchange by NCCL", "", ""}));
}

}  // namespace
}  // namespace autotuned::trainer
