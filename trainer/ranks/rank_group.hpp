// SPDX-License-Identifier: Apache-2.0
// The ranks of a training as a group that acts together. LibTorch's process group stays behind it.
#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "trainer/ranks/rank_place.hpp"

namespace autotuned::trainer {

// How long a rank waits for others that are expected to do the same as it does: less than a session waits for a trainer
// that tells nothing new, so that the trainer is the one that says which rank it was.
inline constexpr std::chrono::milliseconds kRankPatience = std::chrono::minutes(5);

// Calls are collective: all ranks make the same ones in the same order. They throw (c10::Error, std::exception) if
// another rank is gone, at once, or does not take part within the time; then the group is of no more use. One thread.
class RankGroup {
 public:
  // Returns when all ranks have joined. Data go over this machine's loopback device only. ErrorKind::timeout: not all
  // have joined within `join_limit`; ErrorKind::internal: another failure of LibTorch.
  [[nodiscard]] static Result<std::unique_ptr<RankGroup>> join(
      const RankPlace& place, std::chrono::milliseconds join_limit,
      std::chrono::milliseconds patience = kRankPatience);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int ranks() const;
  [[nodiscard]] bool is_leader() const { return rank() == 0; }

  // The leader's numbers, which replace those of all others. The leader may do something else for as long as it likes
  // before it comes here: the others wait until it comes or ends.
  void take_from_leader(std::span<double> numbers);
  // The same with one answer.
  [[nodiscard]] bool as_leader_says(bool mine);
  // Of each number the largest that any rank has, on all of them. Nobody returns before all have come.
  void take_largest(std::span<double> numbers);

  class State;  // rank_group_state.hpp, private to trainer/ranks
  [[nodiscard]] State& state() { return *state_; }

 private:
  explicit RankGroup(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Whether all ranks have the same error at the same step, so that they can go on: what the leader has cancelled, and
// what is refused before anything was done. A rank tells what it alone has as another kind.
[[nodiscard]] inline bool is_agreed(ErrorKind kind) {
  return kind == ErrorKind::cancelled || kind == ErrorKind::unsupported;
}

// Whether this is how LibTorch tells that another rank cannot be reached, rather than a failure of this rank's own.
[[nodiscard]] bool is_of_connection(const Error& error);

}  // namespace autotuned::trainer
