// SPDX-License-Identifier: Apache-2.0
// LibTorch's process group. Private to trainer/ranks.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "trainer/ranks/lost_rank_watch.hpp"
#include "trainer/ranks/rank_group.hpp"

namespace autotuned::trainer {

class RankGroup::State {
 public:
  explicit State(c10::intrusive_ptr<c10d::ProcessGroup> made) : group(std::move(made)) {}
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Tensors on the GPU are exchanged by NCCL from now on. Collective.
  [[nodiscard]] Result<void> join_on_gpu(const c10::intrusive_ptr<c10d::Store>& store,
                                         GpuExchange gpu);
  [[nodiscard]] Result<void> check() const;  // RankGroup::check_exchange()

  c10::intrusive_ptr<c10d::ProcessGroup> group;
  // On GPUs:
  c10::intrusive_ptr<c10d::Backend> nccl;
  std::vector<Descriptor> ties;
  std::unique_ptr<LostRankWatch> watch;
};

}  // namespace autotuned::trainer
