// SPDX-License-Identifier: Apache-2.0
// What the samples of each type of data have as a target, and which losses and figures go with it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autotuned::recipes {

enum class Target {
  classes,  // one class for each sample
  numbers,  // one or more numbers for each sample: regression
  tags,     // for each of several tags, whether the sample has it
  masks,    // one class for each pixel: segmentation
  tokens,   // for each token of a block the one that follows: language models
};

// The type of model that takes tokens, and nothing else.
inline constexpr const char* kTokenModel = "gpt";

// Of a type of data in a recipe; classes if there is no such type.
[[nodiscard]] Target target_of(std::string_view data_type);

// The names of losses that can be computed of such targets.
[[nodiscard]] std::vector<std::string> losses_of(Target target);

// The values of evaluate.best_by for such targets, the default first.
[[nodiscard]] std::vector<std::string> figures_of(Target target);

// Whether a model of that type can have such targets. Of the user's own models only a trainer knows, but tokens are
// not for them.
[[nodiscard]] bool is_model_for(Target target, std::string_view model_type);

// "classes", "numbers", "tags", "masks", "tokens": for messages.
[[nodiscard]] std::string_view name_of(Target target);

}  // namespace autotuned::recipes
