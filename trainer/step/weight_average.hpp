// SPDX-License-Identifier: Apache-2.0
// Running averages of parameters: PyTorch's AveragedModel with get_ema_multi_avg_fn. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace autotuned::trainer {

// One thread. Functions throw c10::Error.
class WeightAverage {
 public:
  // `decay`: share of the average that stays in each update.
  WeightAverage(double decay, std::vector<at::Tensor> parameters);

  // After a step. The first one copies the parameters.
  void update();

  // One per parameter, not defined before the first update. For checkpoints, to be copied from and into.
  [[nodiscard]] std::vector<at::Tensor>& tensors() { return averages_; }

  // While one lives, the parameters are their averages, where there are any. Nothing trains meanwhile.
  class Scope {
   public:
    explicit Scope(WeightAverage* average);  // null: does nothing
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WeightAverage* average_;
    std::vector<at::Tensor> own_;  // of the parameters
  };

 private:
  double decay_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> averages_;
};

}  // namespace autotuned::trainer
