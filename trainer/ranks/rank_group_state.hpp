// SPDX-License-Identifier: Apache-2.0
// LibTorch's process group. Private to trainer/ranks.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "trainer/ranks/rank_group.hpp"

namespace autotuned::trainer {

class RankGroup::State {
 public:
  explicit State(c10::intrusive_ptr<c10d::ProcessGroup> made) : group(std::move(made)) {}

  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

}  // namespace autotuned::trainer
