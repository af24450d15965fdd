// SPDX-License-Identifier: Apache-2.0
// Lion (Chen and others, 2023, "Symbolic Discovery of Optimization Algorithms", program 1). Private to optimizer.cpp: includes LibTorch.
#pragma once

#include <memory>
#include <vector>

#include "trainer/step/optimizer.hpp"

namespace autotuned::trainer {

struct LionOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;  // decoupled, as in AdamW
};

[[nodiscard]] std::unique_ptr<Optimizer> make_lion(std::vector<at::Tensor> parameters,
                                                   LionOptions options);

}  // namespace autotuned::trainer
