// SPDX-License-Identifier: Apache-2.0
// Adagrad with PyTorch's arithmetic. Private to optimizer.cpp: includes LibTorch.
#pragma once

#include <memory>
#include <vector>

#include "trainer/step/optimizer.hpp"

namespace autotuned::trainer {

struct AdagradOptions {
  double rate_decay = 0.0;
  double weight_decay = 0.0;
  double epsilon = 1e-10;
  double initial_sum = 0.0;
};

[[nodiscard]] std::unique_ptr<Optimizer> make_adagrad(std::vector<at::Tensor> parameters,
                                                      AdagradOptions options);

}  // namespace autotuned::trainer
