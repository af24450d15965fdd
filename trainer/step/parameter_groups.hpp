// SPDX-License-Identifier: Apache-2.0
// Groups of parameters with and without weight decay, like the parameter groups of a PyTorch optimizer. Private to
// trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "recipes/recipe.hpp"
#include "trainer/step/optimizer.hpp"

namespace autotuned::trainer {

struct ParameterGroup {
  std::vector<std::size_t> places;  // indices of its parameters among those of the model
  std::unique_ptr<Optimizer> optimizer;
};

// Makes one group, or two if the recipe excludes parameters of at most one dimension from weight decay. Errors are
// those of make_optimizer().
[[nodiscard]] Result<std::vector<ParameterGroup>> make_groups(
    const recipes::Component& spec, const std::vector<at::Tensor>& parameters);

}  // namespace autotuned::trainer
