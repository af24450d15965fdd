// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/findings/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "profiler/analysis/findings/remedies.hpp"

namespace autotuned::analysis {

std::string signal_text(const std::string& name, double value) {
  if (name.ends_with("_ratio")) return fmt::format("{:.1f} %", 100 * value);
  if (name.ends_with("_ns")) return format_span(value);
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

Gain gain_of(const Remedy& remedy, const Signals& signals) {
  Gain gain{.most_saved_ratio = most_saved_ratio(remedy, signals), .reasoning = {}};
  const bool has_bound = *remedy.share != '\0';
  if (gain.most_saved_ratio.has_value() == has_bound) {
    gain.reasoning = filled_in(remedy.reasoning, signals);
  }
  return gain;
}

}  // namespace

const char* code_of(const Rule& rule) {
  return remedy_of(rule).code;
}

const char* to_string(Severity severity) {
  constexpr std::array kNames = {"note", "low", "medium", "high"};
  return kNames[static_cast<std::size_t>(severity)];
}

Severity severity_of(double most_saved_ratio) {
  constexpr double kHigh = 0.2;
  constexpr double kMedium = 0.05;
  if (most_saved_ratio >= kHigh) return Severity::high;
  return most_saved_ratio >= kMedium ? Severity::medium : Severity::low;
}

std::string gain_text(const Gain& gain) {
  if (!gain.most_saved_ratio) return gain.reasoning;
  const double left = 1 - *gain.most_saved_ratio;
  constexpr double kMinLeft = 0.01;  // with less left, the factor would not be credible
  const std::string factor =
      left < kMinLeft ? std::string() : fmt::format(" ({:.2f} x the rate)", 1 / left);
  return fmt::format("at most {:.1f} % of the step{}, {}", 100 * *gain.most_saved_ratio, factor,
                     gain.reasoning);
}

std::vector<Finding> findings_of(const Signals& signals) {
  std::vector<Finding> findings;
  for (const Rule& rule : rules()) {
    const auto signal = signals.find(rule.signal);
    if (signal == signals.end()) continue;
    const double value = signal->second;
    if (rule.is_below ? value < rule.threshold : value > rule.threshold) {
      const Remedy& remedy = remedy_of(rule);
      Gain gain = gain_of(remedy, signals);
      const Severity severity =
          gain.most_saved_ratio ? severity_of(*gain.most_saved_ratio) : remedy.otherwise;
      findings.push_back({.rule = &rule,
                          .value = value,
                          .evidence = filled_in(rule.evidence, signals),
                          .where = {},
                          .severity = severity,
                          .gain = std::move(gain),
                          .code = remedy.code});
    }
  }
  return findings;
}

}  // namespace autotuned::analysis
