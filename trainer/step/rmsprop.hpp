// SPDX-License-Identifier: Apache-2.0
// RMSprop with PyTorch's arithmetic. Private to optimizer.cpp: includes LibTorch.
#pragma once

#include <memory>
#include <vector>

#include "trainer/step/optimizer.hpp"

namespace autotuned::trainer {

struct RmsPropOptions {
  double alpha = 0.99;  // decay of the running means
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool is_centered = false;
};

[[nodiscard]] std::unique_ptr<Optimizer> make_rmsprop(std::vector<at::Tensor> parameters,
                                                      RmsPropOptions options);

}  // namespace autotuned::trainer
