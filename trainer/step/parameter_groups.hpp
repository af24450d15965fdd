// SPDX-License-Identifier: Apache-2.0
// Which parameters decay: the groups that PyTorch users give their optimizer. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "recipes/recipe.hpp"
#include "trainer/step/optimizer.hpp"

namespace autotuned::trainer {

struct ParameterGroup {
  std::vector<std::size_t> places;  // of its parameters among those of the model
  std::unique_ptr<Optimizer> optimizer;
};

// One group, or two where the recipe says that parameters of at most one dimension do not decay. Errors are those of
// make_optimizer().
[[nodiscard]] Result<std::vector<ParameterGroup>> make_groups(
    const recipes::Typed& spec, const std::vector<at::Tensor>& parameters);

}  // namespace autotuned::trainer
