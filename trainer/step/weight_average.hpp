// SPDX-License-Identifier: Apache-2.0
// Running averages of parameters: PyTorch's AveragedModel with get_ema_multi_avg_fn. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace autotuned::trainer {

// One thread. Functions throw c10::Error.
class WeightAverage {
 public:
  // `decay`: share of the average that stays in each update.
  WeightAverage(double decay, std::vector<at::Tensor> parameters);

  // To be called after each step. The first call copies the parameters.
  void update();

  // The averages, one per parameter, undefined before the first update. For checkpoints, to be copied from and into.
  [[nodiscard]] std::vector<at::Tensor>& tensors() { return averages_; }

  // While one lives, the parameters have the values of their averages, if there are any. There must be no training
  // meanwhile. `copies`: they are copies, so that code of others that runs meanwhile does not get hold of the averages.
  class Scope {
   public:
    Scope(WeightAverage* average, bool copies);  // null: does nothing
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WeightAverage* average_;
    std::vector<at::Tensor> own_;  // of the parameters
  };

  // From now on, or from then on no more, scopes use the same copies again. There must be no training meanwhile.
  void keep_copies(bool keeps);

 private:
  [[nodiscard]] at::Tensor copy_of(std::size_t i);

  double decay_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> averages_;
  bool keeps_copies_ = false;
  std::vector<at::Tensor> copies_;  // of each average, where they are kept
};

}  // namespace autotuned::trainer
