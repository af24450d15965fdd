// SPDX-License-Identifier: Apache-2.0
// Loads the weights with which a training begins, and freezes parameters. Private to trainer/.
#pragma once

#include "base/result.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::trainer {

class Model;

// Applies `weights`, `weights_except` and `freeze` of a recipe's model. A name is that of a parameter or buffer, or of
// a module that contains it. Frozen parameters need no gradient afterwards. ErrorKind::invalid: the file lacks a
// tensor, has one too many or one of another shape, a name matches nothing, or nothing is left to train. Other errors
// are those of read_model(). After an error the model may have some of the weights. Throws c10::Error.
[[nodiscard]] Result<void> start_as(const recipes::Component& spec, Model& model);

}  // namespace autotuned::trainer
