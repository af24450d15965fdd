// SPDX-License-Identifier: Apache-2.0
// Collects the names of a trace that a drawing uses.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// Numbers names anew, in the order of their first use, and appends them to `names`. The trace and `names`
// must outlive it.
class UsedNames {
 public:
  UsedNames(const traces::Trace& trace, std::vector<std::string>& names)
      : trace_(trace), names_(names) {}

  std::uint32_t index_of(traces::NameId name) {
    const auto [found, is_new] =
        indices_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(trace_.names.text(name));
    return found->second;
  }

 private:
  const traces::Trace& trace_;
  std::vector<std::string>& names_;
  std::unordered_map<traces::NameId, std::uint32_t> indices_;
};

}  // namespace autotuned::analysis
