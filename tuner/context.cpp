// SPDX-License-Identifier: Apache-2.0
#include "tuner/context.hpp"

#include <algorithm>

namespace autotuned::tuner {

bool is_on_gpu(const SessionInput& input) {
  return get_string(input.job_facts, "device").value_or("cpu").starts_with("cuda");
}

bool is_of_extension(const SessionInput& input, const std::string& knob) {
  return std::ranges::find(input.extension_knobs, knob) != input.extension_knobs.end();
}

bool differ_in_extension(const SessionInput& input, const Configuration& one,
                         const Configuration& other) {
  const Configuration change = one.change_to(other);
  return std::ranges::any_of(change.values(), [&input](const auto& setting) {
    return is_of_extension(input, setting.first);
  });
}

std::int64_t memory_limit_bytes(const SessionInput& input) {
  const recipes::Tune& tune = input.recipe.tune;
  if (tune.memory_limit_bytes) return *tune.memory_limit_bytes;
  const std::int64_t memory = is_on_gpu(input)
                                  ? get_integer(input.job_facts, "device_memory_bytes").value_or(0)
                                  : input.machine.memory_allowed_bytes;
  return static_cast<std::int64_t>(static_cast<double>(memory) * tune.memory_limit_ratio);
}

std::int64_t memory_to_plan_with_bytes(const SessionInput& input) {
  const recipes::Tune& tune = input.recipe.tune;
  const std::int64_t limit = memory_limit_bytes(input);
  if (tune.memory_limit_bytes || input.memory_available_bytes <= 0) return limit;
  const auto available = static_cast<std::int64_t>(
      static_cast<double>(input.memory_available_bytes) * tune.memory_limit_ratio);
  return limit == 0 ? available : std::min(limit, available);
}

}  // namespace autotuned::tuner
