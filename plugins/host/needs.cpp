// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/needs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kCuda = "cuda";

const std::vector<std::string>& known_needs() {
  static const std::vector<std::string> kKnown = [] {
    std::vector<std::string> known = {kCuda};
    for (const std::string_view feature : known_cpu_features())
      known.emplace_back(feature);
    return known;
  }();
  return kKnown;
}

}  // namespace

std::optional<std::string> why_no_need(const std::string& need) {
  if (std::ranges::find(known_needs(), need) != known_needs().end()) return std::nullopt;
  const auto nearest = nearest_name(need, known_needs());
  return fmt::format("needs '{}', which is not a known need; {}", need,
                     nearest ? "did you mean '" + *nearest + "'?"
                             : fmt::format("known are {}", fmt::join(known_needs(), ", ")));
}

std::optional<std::string> why_unsupported(const std::vector<std::string>& needs,
                                           const Machine& machine) {
  for (const std::string& need : needs) {
    if (need == kCuda) {
      if (!machine.gpus.empty()) continue;
      return "needs a CUDA GPU, this machine has none: " + machine.gpu_reason;
    }
    if (machine.has_cpu_feature(need)) continue;
    return fmt::format(
        "needs a CPU with {}, the {} of this machine has {}", need, machine.cpu_model,
        machine.cpu_features.empty() ? "none of the features that matter"
                                     : fmt::format("{}", fmt::join(machine.cpu_features, ", ")));
  }
  return std::nullopt;
}

}  // namespace autotuned::plugins
