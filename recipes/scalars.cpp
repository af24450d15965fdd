// SPDX-License-Identifier: Apache-2.0
#include "recipes/scalars.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "base/printable.hpp"

namespace autotuned::recipes {
namespace {

constexpr std::size_t kMaxLineBytes = 4096;
constexpr std::size_t kMaxNameBytes = 100;

template <class T>
std::optional<T> read_whole(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::optional<double> read_decimal(std::string_view text) {
  // from_chars also reads "inf" and "nan".
  if (text.empty() || !(is_digit(text.back()) || text.back() == '.')) return std::nullopt;
  return read_whole<double>(text);
}

}  // namespace

std::optional<bool> read_boolean(std::string_view text) {
  if (text == "true" || text == "on") return true;
  if (text == "false" || text == "off") return false;
  return std::nullopt;
}

std::optional<std::int64_t> read_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  return read_whole<std::int64_t>(text);
}

std::optional<double> read_number(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return read_decimal(text);
  const auto above = read_decimal(text.substr(0, slash));
  const auto below = read_decimal(text.substr(slash + 1));
  if (!above || !below || !std::isfinite(*above / *below)) return std::nullopt;
  return *above / *below;
}

bool fits_float32(double number) {
  using Limits = std::numeric_limits<float>;
  const double magnitude = std::abs(number);
  return number == 0.0 || (magnitude >= Limits::min() && magnitude <= Limits::max());
}

std::optional<std::string> without_decimal_comma(std::string_view text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  std::string with_point(text);
  with_point[comma] = '.';
  if (!read_number(with_point)) return std::nullopt;
  return with_point;
}

bool is_line(std::string_view text) {
  return !text.empty() && text.size() <= kMaxLineBytes && std::ranges::none_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

bool is_name(std::string_view text) {
  return is_line(text) && text.size() <= kMaxNameBytes &&
         text.find('/') == std::string_view::npos && text != "." && text != ".." &&
         text.front() != ' ' && text.back() != ' ' && printable(std::string(text)) == text;
}

bool is_device(std::string_view text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return true;
  constexpr std::string_view kNumbered = "cuda:";
  if (!text.starts_with(kNumbered)) return false;
  const auto number = read_integer(text.substr(kNumbered.size()));
  return number && *number >= 0 && *number < 128;
}

}  // namespace autotuned::recipes
