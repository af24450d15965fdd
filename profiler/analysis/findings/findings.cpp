// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/findings/findings.hpp"

#include <fmt/format.h>

#include <string_view>

#include "base/text.hpp"

namespace autotuned::analysis {

std::string signal_text(const std::string& name, double value) {
  if (name.ends_with("_ratio")) return fmt::format("{:.1f} %", 100 * value);
  if (name.ends_with("_ns")) {
    return value < 1e6 ? fmt::format("{:.1f} us", value / 1e3)
                       : fmt::format("{:.1f} ms", value / 1e6);
  }
  if (name.ends_with("_bytes")) return format_bytes(static_cast<std::int64_t>(value));
  if (name.ends_with("_count")) return format_count(static_cast<std::int64_t>(value + 0.5));
  return fmt::format("{:.1f}", value);
}

std::string condition_text(const Rule& rule) {
  return (rule.is_below ? "under " : "over ") + signal_text(rule.signal, rule.threshold);
}

namespace {

std::string filled_in(std::string_view sentence, const Signals& signals) {
  std::string text;
  while (!sentence.empty()) {
    const std::size_t open = sentence.find('{');
    text += sentence.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = sentence.find('}', open);
    const std::string name(sentence.substr(open + 1, close - open - 1));
    const auto signal = signals.find(name);
    text += signal == signals.end() ? "an unknown share" : signal_text(name, signal->second);
    sentence.remove_prefix(close + 1);
  }
  return text;
}

}  // namespace

std::vector<Finding> findings_of(const Signals& signals) {
  std::vector<Finding> findings;
  for (const Rule& rule : rules()) {
    const auto signal = signals.find(rule.signal);
    if (signal == signals.end()) continue;
    const double value = signal->second;
    if (rule.is_below ? value < rule.threshold : value > rule.threshold) {
      findings.push_back({&rule, value, filled_in(rule.evidence, signals), {}});
    }
  }
  return findings;
}

}  // namespace autotuned::analysis
