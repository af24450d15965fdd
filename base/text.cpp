// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

namespace autotuned {
namespace {

char lower(char character) {
  return character >= 'A' && character <= 'Z' ? static_cast<char>(character - 'A' + 'a')
                                              : character;
}

// Insertions, deletions, substitutions and swaps of neighbours (each stretch edited once).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0U : 1U)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ')
    text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ')
    text.remove_suffix(1);
  return text;
}

// Removes a plain decimal number ("12", "1.5"; no sign, no exponent) from the front.
std::optional<double> take_number(std::string_view& text) {
  const std::size_t length = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + length, number, std::chars_format::fixed);
  if (length == 0 || error != std::errc() || end != text.data() + length) return std::nullopt;
  text.remove_prefix(length);
  return number;
}

std::string_view take_word(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && lower(text[length]) >= 'a' && lower(text[length]) <= 'z')
    ++length;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

struct Unit {
  std::string_view name;
  double factor;
};

// Largest first: parts of a duration come in this order.
constexpr std::array kDurationUnits = {Unit{"h", 3600e9}, Unit{"min", 60e9}, Unit{"s", 1e9},
                                       Unit{"ms", 1e6},   Unit{"us", 1e3},   Unit{"ns", 1}};
constexpr std::array kByteUnits = {Unit{"", 1},
                                   Unit{"B", 1},
                                   Unit{"KiB", 1024.0},
                                   Unit{"MiB", 1024.0 * 1024},
                                   Unit{"GiB", 1024.0 * 1024 * 1024},
                                   Unit{"TiB", 1024.0 * 1024 * 1024 * 1024}};

// The largest double below 2^63.
constexpr double kMaxInteger = 9223372036854774784.0;

tl::unexpected<Error> unreadable(std::string_view text, const char* what, const char* remedy) {
  return fail(ErrorKind::invalid, fmt::format("\"{}\" is not {}", text, what), {}, remedy);
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string first_line(const char* text) {
  const std::string all = text != nullptr ? text : "unknown error";
  return all.substr(0, all.find('\n'));
}

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates) {
  const std::size_t limit = std::max<std::size_t>(1, name.size() / 3);
  std::size_t best = limit + 1;
  std::optional<std::string> nearest;
  for (const std::string& candidate : candidates) {
    const std::size_t shorter = std::min(name.size(), candidate.size());
    const std::size_t longer = std::max(name.size(), candidate.size());
    if (longer - shorter > limit) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string format_duration(std::chrono::nanoseconds duration) {
  const auto count = static_cast<double>(duration.count());
  const double ns = std::abs(count);
  const char* sign = count < 0 ? "-" : "";
  // The limits lie where rounding to the shown digits would reach the next unit.
  if (ns < 1e3) return fmt::format("{}{:.0f} ns", sign, ns);
  if (ns < 999.5e3) return fmt::format("{}{:.0f} µs", sign, ns / 1e3);
  if (ns < 9.95e6) return fmt::format("{}{:.1f} ms", sign, ns / 1e6);
  if (ns < 999.5e6) return fmt::format("{}{:.0f} ms", sign, ns / 1e6);
  if (ns < 59.95e9) return fmt::format("{}{:.1f} s", sign, ns / 1e9);
  const std::int64_t seconds = std::llround(ns / 1e9);
  if (seconds < 3600) return fmt::format("{}{} min {:02} s", sign, seconds / 60, seconds % 60);
  const std::int64_t minutes = std::llround(ns / 60e9);
  return fmt::format("{}{} h {:02} min", sign, minutes / 60, minutes % 60);
}

std::string format_exact_duration(std::chrono::nanoseconds duration) {
  constexpr std::array<std::pair<std::int64_t, const char*>, 6> kUnits{{{3'600'000'000'000, "h"},
                                                                        {60'000'000'000, "min"},
                                                                        {1'000'000'000, "s"},
                                                                        {1'000'000, "ms"},
                                                                        {1'000, "us"},
                                                                        {1, "ns"}}};
  const std::int64_t ns = duration.count();
  if (ns == 0) return "0s";
  const auto unit =
      std::ranges::find_if(kUnits, [&](const auto& known) { return ns % known.first == 0; });
  return std::to_string(ns / unit->first) + unit->second;
}

std::string format_span(double ns) {
  if (!std::isfinite(ns)) return "unknown";
  constexpr double kMinuteNs = 60e9;
  constexpr double kMaxNs = 9e18;
  constexpr std::array kScales = {Unit{"ns", 1}, Unit{"µs", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}};
  const double size = std::abs(ns);
  if (size >= 0.9995 * kMinuteNs) {
    return format_duration(std::chrono::nanoseconds(std::llround(std::clamp(ns, -kMaxNs, kMaxNs))));
  }
  if (size < 0.5) return "0 ns";
  // The limits lie where rounding to the shown figures would reach the next unit.
  std::size_t unit = 0;
  while (unit + 1 < kScales.size() && size >= 999.5 * kScales[unit].factor)
    ++unit;
  const double shown = size / kScales[unit].factor;
  const int decimals = unit == 0 || shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
  return fmt::format("{}{:.{}f} {}", ns < 0 ? "-" : "", shown, decimals, kScales[unit].name);
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  const double size = std::abs(static_cast<double>(bytes));
  const char* sign = bytes < 0 ? "-" : "";
  if (size < 1024) return fmt::format("{}{:.0f} B", sign, size);
  double scaled = size / 1024;
  std::size_t unit = 0;
  while (scaled >= 1023.95 && unit + 1 < kNames.size()) {
    scaled /= 1024;
    ++unit;
  }
  return fmt::format("{}{:.1f} {}", sign, scaled, kNames[unit]);
}

std::string format_count(std::int64_t count) {
  std::string text = std::to_string(count);
  const std::ptrdiff_t first = count < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > first; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

std::string format_counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", format_count(count), what, count == 1 ? "" : "s");
}

std::string format_gain(double ratio, int decimals) {
  if (!std::isfinite(ratio)) return "unknown";
  // Rounded before printing so that a tiny loss does not read "-0.0 %".
  const double scale = std::pow(10.0, decimals);
  const double steps = std::round((ratio - 1) * (100 * scale));
  return fmt::format("{:+.{}f} %", steps == 0 ? 0.0 : steps / scale, decimals);
}

int ratio_decimals(double low, double high, int least) {
  constexpr int kMaxMore = 2;
  int decimals = least;
  const auto differ = [&decimals](double a, double b) {
    return fmt::format("{:.{}f}", a, decimals) != fmt::format("{:.{}f}", b, decimals);
  };
  for (; decimals < least + kMaxMore; ++decimals) {
    const bool has_side = low > 1.0 || high < 1.0;
    const bool is_side_seen = !has_side || differ(low > 1.0 ? low : high, 1.0);
    const bool are_ends_apart = !(low < high) || differ(low, high);
    if (is_side_seen && are_ends_apart) break;
  }
  return decimals;
}

std::string format_ratio(double ratio) {
  return fmt::format("{:.{}f}", ratio, ratio_decimals(ratio, ratio, 2));
}

std::string format_share(double ratio) {
  return fmt::format("{:.{}f} %", ratio * 100, ratio < 0.1 ? 1 : 0);
}

std::string format_names(std::span<const std::string> names, std::size_t most) {
  const std::size_t named = std::min(names.size(), most);
  std::string text = fmt::format("{}", fmt::join(names.first(named), ", "));
  if (names.size() > named) text += fmt::format(" and {} more", names.size() - named);
  return text;
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr const char* kWhat = "a duration";
  constexpr const char* kRemedy = "write it like 10min, 90s, 1h30min or 250ms";
  std::string_view rest = without_blanks(text);
  if (rest.empty()) return unreadable(text, kWhat, kRemedy);
  double total_ns = 0;
  std::size_t next_unit = 0;
  while (!rest.empty()) {
    const std::optional<double> number = take_number(rest);
    rest = without_blanks(rest);
    const std::string_view name = take_word(rest);
    rest = without_blanks(rest);
    while (next_unit < kDurationUnits.size() && kDurationUnits[next_unit].name != name)
      ++next_unit;
    if (!number || next_unit == kDurationUnits.size()) return unreadable(text, kWhat, kRemedy);
    total_ns += *number * kDurationUnits[next_unit++].factor;
  }
  if (total_ns > kMaxInteger) return unreadable(text, "a duration under 292 years", kRemedy);
  return std::chrono::nanoseconds(std::llround(total_ns));
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  constexpr const char* kWhat = "a size in bytes";
  constexpr const char* kRemedy =
      "write it like 6GiB, 512MiB or 1000 (units B, KiB, MiB, GiB, TiB)";
  std::string_view rest = without_blanks(text);
  // Whole bytes are exact: a double has only 53 bits.
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), whole);
  if (error == std::errc() && end == rest.data() + rest.size() && whole >= 0) return whole;

  const std::optional<double> number = take_number(rest);
  const std::string_view unit = without_blanks(rest);
  const auto* found = std::ranges::find(kByteUnits, unit, &Unit::name);
  if (!number || found == kByteUnits.end()) return unreadable(text, kWhat, kRemedy);
  const double bytes = *number * found->factor;
  if (bytes > kMaxInteger) return unreadable(text, "a size under 8 EiB", kRemedy);
  return std::llround(bytes);
}

Result<double> parse_ratio(std::string_view text) {
  std::string_view rest = without_blanks(text);
  const std::optional<double> number = take_number(rest);
  rest = without_blanks(rest);
  if (!number || !std::isfinite(*number) || (!rest.empty() && rest != "%")) {
    return unreadable(text, "a ratio", "write it like 2% or 0.02");
  }
  return rest == "%" ? *number / 100 : *number;
}

}  // namespace autotuned
