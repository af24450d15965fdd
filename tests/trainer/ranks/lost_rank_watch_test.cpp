// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/lost_rank_watch.hpp"

#include <gmock/gmock.h>

#include <future>
#include <utility>

namespace autotuned::trainer {
namespace {

constexpr std::chrono::hours kNever(1);
constexpr std::chrono::milliseconds kSoon(50);

SocketPair tie() {
  auto made = socket_pair();
  EXPECT_TRUE(made) << made.error().message();
  return *std::move(made);
}

TEST(LostRankWatch, EndsTheExchangeOnceWhenARankLeaves) {
  SocketPair first = tie();
  SocketPair second = tie();
  std::promise<void> ended;
  LostRankWatch watch(
      {{first.ours.get(), "rank 1 of 3"}, {second.ours.get(), "rank 2 of 3"}},
      [&] { ended.set_value(); }, kNever, [] { ADD_FAILURE(); });
  watch.joined();
  EXPECT_EQ(watch.lost(), "");
  second.theirs.reset();
  ended.get_future().wait();
  EXPECT_EQ(watch.lost(), "rank 2 of 3");
  first.theirs.reset();  // a second call would throw
}

TEST(LostRankWatch, DoesNothingAtTheEndOfItsOwner) {
  const SocketPair one = tie();
  const LostRankWatch watch(
      {{one.ours.get(), "rank 0 of 2"}}, [] { ADD_FAILURE(); }, kNever, [] { ADD_FAILURE(); });
}

// A driver that does not answer.
TEST(LostRankWatch, EndsTheProcessWhereTheExchangeDoesNotEnd) {
  SocketPair one = tie();
  std::promise<void> process_ended;
  std::promise<void> may_go_on;
  LostRankWatch watch(
      {{one.ours.get(), "rank 1 of 2"}}, [&] { may_go_on.get_future().wait(); }, kSoon,
      [&] { process_ended.set_value(); });
  watch.joined();
  one.theirs.reset();
  process_ended.get_future().wait();
  may_go_on.set_value();
}

// NCCL waits for a rank that never comes, with nothing yet that could be aborted.
TEST(LostRankWatch, EndsTheProcessThatStillJoins) {
  SocketPair one = tie();
  std::promise<void> process_ended;
  const LostRankWatch watch(
      {{one.ours.get(), "rank 1 of 2"}}, [] {}, kSoon, [&] { process_ended.set_value(); });
  one.theirs.reset();
  process_ended.get_future().wait();
}

TEST(LostRankWatch, LetsAProcessLiveThatLeavesWhileItJoins) {
  SocketPair one = tie();
  std::promise<void> ended;
  {
    const LostRankWatch watch(
        {{one.ours.get(), "rank 1 of 2"}}, [&] { ended.set_value(); }, kNever,
        [] { ADD_FAILURE(); });
    one.theirs.reset();
    ended.get_future().wait();
  }
}

}  // namespace
}  // namespace autotuned::trainer
