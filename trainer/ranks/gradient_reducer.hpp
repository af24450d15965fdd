// SPDX-License-Identifier: Apache-2.0
// Replaces the gradients of all ranks by their mean during the backward pass, as DistributedDataParallel does. Private
// to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/ranks/rank_group.hpp"

namespace autotuned::trainer {

// The type in which gradients are exchanged.
enum class GradientForm { own, bf16, fp16 };

// How ranks exchange gradients. The defaults are those of DistributedDataParallel.
struct ReducerSettings {
  // Gradients are exchanged in buckets of at most this many bytes; a larger parameter has a bucket of its own. With the
  // default, the bucket that is full first has 1 MiB.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  bool is_view = false;  // gradients are views of the buckets, instead of copies
  GradientForm form = GradientForm::own;

  friend bool operator==(const ReducerSettings&, const ReducerSettings&) = default;
};

// Replaces the tensors of all others by the leader's. Collective; throws as RankGroup does.
void take_tensors_from_leader(RankGroup& group, const std::vector<at::Tensor>& tensors);

// LibTorch's c10d::Reducer, as DistributedDataParallel uses it where every parameter gets a gradient in every backward
// pass.
//
// Collective; throws as RankGroup does, and c10::Error after a backward pass in which a parameter got no gradient. It
// cannot be used after a failed step. One thread.
class GradientReducer {
 public:
  // `group` must outlive it. `parameters` are those that are trained, with their `names`, in the same order on all ranks;
  // their memory format stays as it is for the life of the reducer.
  GradientReducer(RankGroup& group, std::vector<at::Tensor> parameters,
                  const std::vector<std::string>& names, const ReducerSettings& settings = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // To be called before the forward pass of a step.
  void begin_step();
  // To be called before the last backward pass of a step: its gradients, with those that earlier passes have added,
  // become the mean.
  void begin_last_backward();
  // How long the last averaged backward pass waited for gradients of other ranks after its own were complete. 0 before
  // the first.
  [[nodiscard]] std::int64_t waited_ns() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::trainer
