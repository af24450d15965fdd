// SPDX-License-Identifier: Apache-2.0
// The target of the samples of each type of data, and the losses and figures that fit it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autotuned::recipes {

// What a model should give for a sample.
enum class Target {
  classes,  // one class for each sample
  numbers,  // one or more numbers for each sample: regression
  tags,     // whether the sample has each of several tags
  masks,    // one class for each pixel: segmentation
  tokens,   // the next token for each token of a block: language models
};

// The only type of model that takes tokens. It takes nothing else.
inline constexpr const char* kTokenModel = "gpt";

// Returns the target of a type of data; classes if there is no such type.
[[nodiscard]] Target target_of(std::string_view data_type);

// Returns the names of the losses that can be computed for the target.
[[nodiscard]] std::vector<std::string> losses_of(Target target);

// Returns the values of evaluate.best_by for the target, the default first.
[[nodiscard]] std::vector<std::string> figures_of(Target target);

// Whether a model of that type can have the target. For the user's own models only a trainer knows, so the answer is yes, except for
// tokens.
[[nodiscard]] bool is_model_for(Target target, std::string_view model_type);

// "classes", "numbers", "tags", "masks", "tokens": for messages.
[[nodiscard]] std::string_view name_of(Target target);

}  // namespace autotuned::recipes
