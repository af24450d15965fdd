// SPDX-License-Identifier: Apache-2.0
// Makes the gradients of all ranks their mean during the backward pass, as DistributedDataParallel does.
// Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "trainer/ranks/rank_group.hpp"

namespace autotuned::trainer {

// The tensors of the leader replace those of all others. Collective; throws as RankGroup does.
void take_tensors_from_leader(RankGroup& group, const std::vector<at::Tensor>& tensors);

// LibTorch's c10d::Reducer with the settings that DistributedDataParallel has by default: buckets of 25 MiB, gradients
// that are no views of buckets, and every parameter gets a gradient in every backward pass.
//
// Collective; throws as RankGroup does, and c10::Error after a backward pass in which a parameter got no gradient. A step
// that has failed leaves it unfit for another one. One thread.
class GradientReducer {
 public:
  // `group` must outlive it. `parameters` are those that are trained, with their `names`, in the same order on all ranks;
  // their memory format stays as it is for the life of the reducer.
  GradientReducer(RankGroup& group, std::vector<at::Tensor> parameters,
                  const std::vector<std::string>& names);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Before the forward pass of a step.
  void begin_step();
  // Before the backward pass whose gradients, with what earlier passes of the step have added, become the mean.
  void begin_last_backward();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::trainer
