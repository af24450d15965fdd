// SPDX-License-Identifier: Apache-2.0
// NAdam with PyTorch's arithmetic. Private to optimizer.cpp: includes LibTorch.
#pragma once

#include <memory>
#include <vector>

#include "trainer/step/optimizer.hpp"

namespace autotuned::trainer {

struct NAdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double momentum_decay = 0.004;
};

[[nodiscard]] std::unique_ptr<Optimizer> make_nadam(std::vector<at::Tensor> parameters,
                                                    NAdamOptions options);

}  // namespace autotuned::trainer
