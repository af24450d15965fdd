// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/plugin_tally.hpp"

#include <fmt/format.h>

#include "tuner/advisors.hpp"

namespace autotuned::daemon {

std::string PluginCounts::text() const {
  std::string text = fmt::format("{} tried", tried);
  if (untried > 0) text += fmt::format(", {} not tried", untried);
  text += fmt::format(", {} not applicable", inapplicable);
  if (failed > 0) text += fmt::format(", {} left out", failed);
  return text;
}

Json PluginCounts::to_json() const {
  return {{"asked", asked},
          {"tried", tried},
          {"untried", untried},
          {"inapplicable", inapplicable},
          {"failed", failed}};
}

void PluginTally::asked(const std::string& plugin) {
  last_words_.emplace(plugin, LastWord::none);
}

void PluginTally::answered(const std::string& plugin, const std::string& outcome, bool is_failure) {
  last_words_[plugin] = is_failure        ? LastWord::failure
                        : outcome.empty() ? LastWord::proposal
                                          : LastWord::reason;
}

void PluginTally::tried(const std::string& plugin) {
  if (plugin == tuner::kOwnName) return;
  tried_.insert(plugin);
}

PluginCounts PluginTally::counts() const {
  PluginCounts counts;
  if (last_words_.empty()) return counts;
  counts.tried = static_cast<int>(tried_.size());
  for (const auto& [plugin, word] : last_words_) {
    if (tried_.contains(plugin)) continue;
    switch (word) {
      case LastWord::none:
      case LastWord::proposal:
        ++counts.untried;
        break;
      case LastWord::reason:
        ++counts.inapplicable;
        break;
      case LastWord::failure:
        ++counts.failed;
        break;
    }
  }
  counts.asked = counts.tried + counts.untried + counts.inapplicable + counts.failed;
  return counts;
}

}  // namespace autotuned::daemon
