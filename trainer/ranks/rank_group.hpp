// SPDX-License-Identifier: Apache-2.0
// The group of ranks of a training, with collective operations. Hides LibTorch's process group.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "trainer/ranks/own_rank.hpp"

namespace autotuned::trainer {

// How long a rank waits for the others in a collective operation: less than a session waits for a silent trainer, so
// that the trainer can still report which rank is missing.
inline constexpr std::chrono::milliseconds kRankPatience = std::chrono::minutes(5);

// What ranks on GPUs need beside: they exchange tensors on the GPU by NCCL.
struct GpuExchange {
  int device = 0;  // LibTorch's number of this rank's GPU, which no other rank uses
  // Connections that end at other ranks' groups, of the leader one for each rank from 1 on: they close where a rank leaves.
  std::vector<Descriptor> ties;
};

// Calls are collective: all ranks must make the same calls in the same order. They throw (c10::Error, std::exception)
// at once if another rank is gone, or if it does not take part within `patience`; the group cannot be used after that.
// One thread.
class RankGroup {
 public:
  // Returns when all ranks have joined. Data of the host are sent over this machine's loopback device only. With `gpu`
  // tensors on the GPU go by NCCL, and that GPU becomes the calling thread's own. ErrorKind::timeout: not all have
  // joined within `join_limit`; ErrorKind::unsupported: this build has no NCCL; ErrorKind::internal: another failure of
  // LibTorch.
  [[nodiscard]] static Result<std::unique_ptr<RankGroup>> join(
      const OwnRank& place, std::chrono::milliseconds join_limit,
      std::chrono::milliseconds patience = kRankPatience,
      std::optional<GpuExchange> gpu = std::nullopt);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int ranks() const;
  [[nodiscard]] bool is_leader() const { return rank() == 0; }
  // On GPUs, an error if a rank has left meanwhile: kernels that waited for it have ended, and their results mean nothing.
  // It is_of_connection().
  [[nodiscard]] Result<void> check_exchange() const;

  // Replaces the numbers of all others by the leader's. There is no time limit for the leader: the others wait until it
  // calls or ends.
  void take_from_leader(std::span<double> numbers);
  // The leader's answer, on all ranks.
  [[nodiscard]] bool as_leader_says(bool mine);
  // Replaces each number by the largest of all ranks. Returns when all have called.
  void take_largest(std::span<double> numbers);

  class State;  // rank_group_state.hpp, private to trainer/ranks
  [[nodiscard]] State& state() { return *state_; }

 private:
  explicit RankGroup(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Whether an error of this kind means that all ranks have the same error at the same step, so that they can go on: a
// cancel by the leader, or a request that was refused before anything was done. An error that one rank has alone must
// be of another kind.
[[nodiscard]] inline bool is_agreed(ErrorKind kind) {
  return kind == ErrorKind::cancelled || kind == ErrorKind::unsupported;
}

// Whether this is LibTorch's error for a rank that cannot be reached, and not a failure of this rank.
[[nodiscard]] bool is_of_connection(const Error& error);

}  // namespace autotuned::trainer
