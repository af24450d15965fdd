// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/output_space.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/text.hpp"

namespace autotuned::daemon {

OutputNeed output_need(const recipes::Recipe& recipe, std::int64_t parameter_bytes) {
  const std::int64_t averages = recipe.step_rules.ema_decay ? 1 : 0;
  OutputNeed need;
  need.checkpoint_bytes =
      parameter_bytes * (1 + recipes::optimizer_states(recipe.optimizer) + averages);
  need.model_bytes = parameter_bytes * (1 + averages);
  std::int64_t saves = recipe.evaluation && recipe.evaluation->saves_best ? 1 : 0;
  if (recipe.save_every_epochs || recipe.save_every_steps) saves += recipe.kept_saves;
  need.saves_bytes = saves * need.model_bytes;
  return need;
}

std::optional<SpaceFinding> space_finding(const OutputNeed& need, std::int64_t free_bytes) {
  if (free_bytes >= need.most_bytes()) return std::nullopt;
  const std::string free = format_bytes(free_bytes) + " of the disk are free";
  if (free_bytes < need.model_bytes) {
    return SpaceFinding{true, free + ", and the model takes " + format_bytes(need.model_bytes) +
                                  ": it cannot be written"};
  }
  return SpaceFinding{false, free + ", and the training may need " +
                                 format_bytes(need.most_bytes()) + ": two checkpoints of " +
                                 format_bytes(need.checkpoint_bytes) +
                                 ", one beside the other while it is replaced, and the model" +
                                 (need.saves_bytes > 0 ? " with what is saved of it" : "")};
}

std::optional<SpaceFinding> output_space(const recipes::Recipe& recipe,
                                         std::int64_t parameter_bytes, std::int64_t freed_bytes) {
  if (parameter_bytes <= 0) return std::nullopt;
  std::filesystem::path there = recipe.output_dir;
  std::error_code ignored;
  while (!std::filesystem::exists(there, ignored) && there.has_relative_path())
    there = there.parent_path();
  std::error_code failed;
  const std::filesystem::space_info space = std::filesystem::space(there, failed);
  // Some file systems do not know.
  constexpr auto kUnknown = static_cast<std::uintmax_t>(-1);
  if (failed || space.capacity == 0 || space.capacity == kUnknown || space.available == kUnknown) {
    return std::nullopt;
  }
  constexpr std::uintmax_t kMax = std::uintmax_t{1} << 62U;
  const auto free_bytes = static_cast<std::int64_t>(std::min(space.available, kMax));
  return space_finding(output_need(recipe, parameter_bytes), free_bytes + freed_bytes);
}

}  // namespace autotuned::daemon
