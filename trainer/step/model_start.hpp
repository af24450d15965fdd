// SPDX-License-Identifier: Apache-2.0
// With which weights the training of a model begins, and which of them it leaves alone. Private to trainer/.
#pragma once

#include "base/result.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::trainer {

class Model;

// `weights`, `weights_except` and `freeze` of a recipe's model. A name is that of a parameter or buffer, or of a module
// above it. Frozen parameters need no gradient afterwards.
// ErrorKind::invalid: the file lacks a tensor, has one too many or one of another shape, a name stands for nothing, or
// nothing is left to train; errors of read_model(). Then the model may have some of the weights. Throws c10::Error.
[[nodiscard]] Result<void> start_as(const recipes::Typed& spec, Model& model);

}  // namespace autotuned::trainer
