// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/figures.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "tuner/comparison.hpp"

namespace autotuned::daemon {

namespace {

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

// A variable of the environment that is not set is an empty one, or has no value at all.
std::string knob_text(const KnobValue* value) {
  const std::string text = value != nullptr ? to_text(*value) : std::string();
  return text.empty() ? "unset" : text;
}

// An end of an interval that too few pairs have not shown yet is 0 or kNoUpperEnd.
bool is_known(double end) {
  return end > 0.0 && end < tuner::kNoUpperEnd;
}

}  // namespace

std::string change_text(const Configuration& reference, const Configuration& change) {
  std::string text;
  for (const auto& [name, value] : change.values()) {
    if (!text.empty()) text += ", ";
    text += name + " " + knob_text(reference.find(name)) + " → " + knob_text(&value);
  }
  return text.empty() ? "nothing" : text;
}

std::string estimate_text(const Estimate& estimate) {
  if (estimate.pairs == 0) return "not measured";
  return fmt::format("{:.2f} x ({})", estimate.ratio, interval_text(estimate, 2));
}

std::string interval_text(const Estimate& estimate, int decimals) {
  const auto end = [decimals](double value) { return fmt::format("{:.{}f}", value, decimals); };
  if (is_known(estimate.low) && is_known(estimate.high)) {
    return end(estimate.low) + " to " + end(estimate.high);
  }
  if (is_known(estimate.low)) return "at least " + end(estimate.low);
  if (is_known(estimate.high)) return "at most " + end(estimate.high);
  return "too few pairs for an interval";
}

bool has_interval(const Estimate& estimate) {
  return is_known(estimate.low) || is_known(estimate.high);
}

std::string gain_text(const Estimate& estimate) {
  if (estimate.pairs == 0) return "not measured";
  const bool has_low = is_known(estimate.low);
  const bool has_high = is_known(estimate.high);
  const std::string ends = has_low && has_high ? "between " + format_gain(estimate.low) + " and " +
                                                     format_gain(estimate.high)
                           : has_low  ? "at least " + format_gain(estimate.low)
                           : has_high ? "at most " + format_gain(estimate.high)
                                      : std::string("too few pairs for an interval");
  return fmt::format("{} ({}, {} pair{} of blocks)", format_gain(estimate.ratio), ends,
                     estimate.pairs, estimate.pairs == 1 ? "" : "s");
}

std::string rate_text(double samples_per_second, std::string_view unit) {
  // Steps can be slow.
  const std::string count = unit == "steps" && samples_per_second < 100.0
                                ? fmt::format("{:.2f}", samples_per_second)
                                : format_count(static_cast<std::int64_t>(samples_per_second + 0.5));
  return fmt::format("{} {}/s", count, unit);
}

std::string_view rung_text(std::string_view rung) {
  if (rung == "raw_bytes") return "with its files in memory";
  if (rung == "made_samples") return "with ready samples in memory";
  if (rung == "host_batch") return "with ready batches on the host";
  if (rung == "device_batch") return "with ready batches on the device";
  return {};
}

std::string ladder_text(const Json& ladder) {
  if (!ladder.is_array()) return {};
  std::string text;
  for (const Json& rung : ladder) {
    const std::string name = get_string(rung, "rung").value_or("");
    const std::string_view words = rung_text(name);
    if (words.empty() || name == "device_batch") continue;
    const double reached = get_number(rung, "reached_ratio").value_or(0.0);
    text += fmt::format("{}{} {} ({} reached)", text.empty() ? "at least " : ", ",
                        rate_text(get_number(rung, "samples_per_second").value_or(0.0)), words,
                        format_share(std::clamp(reached, 0.0, 1.0)));
  }
  return text;
}

std::string time_text(std::int64_t unix_time_ns) {
  const std::time_t seconds = static_cast<std::time_t>(unix_time_ns / 1'000'000'000);
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr) return "?";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

std::string table_text(std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = printable(std::move(row[i]));
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - width_of(row[i]) + 2, ' ');
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace autotuned::daemon
