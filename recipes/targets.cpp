// SPDX-License-Identifier: Apache-2.0
#include "recipes/targets.hpp"

#include "recipes/schema_table.hpp"

namespace autotuned::recipes {

Target target_of(std::string_view data_type) {
  const Variant* const variant = find_variant(data_types(), data_type);
  return variant != nullptr ? variant->target : Target::classes;
}

std::vector<std::string> losses_of(Target target) {
  if (target == Target::numbers) return {"mse", "l1", "smooth_l1", "huber", kPluginType};
  if (target == Target::tags) return {"bce", kPluginType};
  if (target == Target::masks) return {"cross_entropy", "dice", "dice_ce", kPluginType};
  if (target == Target::tokens) return {"cross_entropy", kPluginType};
  return {"cross_entropy", "bce", "mse", kPluginType};
}

std::vector<std::string> figures_of(Target target) {
  if (target == Target::numbers) return {"loss", "mae", "r2"};
  if (target == Target::tags) return {"f1", "loss"};
  if (target == Target::masks) return {"miou", "accuracy", "loss"};
  if (target == Target::tokens) return {"loss", "accuracy"};
  return {"accuracy", "loss"};
}

bool is_model_for(Target target, std::string_view model_type) {
  if (target == Target::tokens || model_type == kTokenModel) {
    return target == Target::tokens && model_type == kTokenModel;
  }
  if (model_type == "torchscript" || model_type == kPluginType) return true;
  return (target == Target::masks) == (model_type == "unet");
}

std::string_view name_of(Target target) {
  if (target == Target::numbers) return "numbers";
  if (target == Target::masks) return "masks";
  if (target == Target::tokens) return "tokens";
  return target == Target::tags ? "tags" : "classes";
}

}  // namespace autotuned::recipes
