// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/collective_size.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "profiler/traces/classification.hpp"
#include "profiler/traces/numbers.hpp"

namespace autotuned::traces {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 40U;

// Bytes by PyTorch's names of types, in upper or lower case: "Float" and "float".
constexpr std::array kTypeBytes = {
    std::pair{"float", 4},        std::pair{"half", 2},          std::pair{"bfloat16", 2},
    std::pair{"c10::half", 2},    std::pair{"c10::bfloat16", 2}, std::pair{"double", 8},
    std::pair{"int", 4},          std::pair{"long", 8},          std::pair{"long int", 8},
    std::pair{"short", 2},        std::pair{"char", 1},          std::pair{"signed char", 1},
    std::pair{"byte", 1},         std::pair{"unsigned char", 1}, std::pair{"bool", 1},
    std::pair{"complexfloat", 8}, std::pair{"complexdouble", 16}};

std::int64_t bytes_of_type(std::string_view type) {
  std::string lower(type.substr(0, 24));
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (lower.starts_with("float8")) return 1;
  for (const auto& [name, bytes] : kTypeBytes) {
    if (lower == name) return bytes;
  }
  return 0;
}

// Removes the next element from `["float", "long int"]` and returns it.
std::optional<std::string_view> take_type(std::string_view& list) {
  const std::size_t open = list.find('"');
  if (open == std::string_view::npos) return std::nullopt;
  const std::size_t close = list.find('"', open + 1);
  if (close == std::string_view::npos) return std::nullopt;
  const std::string_view type = list.substr(open + 1, close - open - 1);
  list.remove_prefix(close + 1);
  return type;
}

// Removes the next tensor from `[8, 3], []` and returns its number of elements; nothing for a list of tensors, or at the end.
std::optional<std::int64_t> take_elements(std::string_view& list) {
  const std::size_t open = list.find('[');
  const std::size_t close = list.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  std::string_view sizes = trimmed(list.substr(open + 1, close - open - 1));
  list.remove_prefix(close + 1);
  std::int64_t elements = 1;
  while (!sizes.empty()) {
    const std::size_t comma = std::min(sizes.find(','), sizes.size());
    const std::string_view word = trimmed(sizes.substr(0, comma));
    sizes.remove_prefix(std::min(comma + 1, sizes.size()));
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    if (size < 0 || size > kMaxElements) return std::nullopt;
    if (size > 0 && elements > kMaxElements / size) return std::nullopt;
    elements *= size;
  }
  return elements;
}

std::optional<std::int64_t> tensor_bytes(std::string_view shapes, std::string_view types) {
  if (!shapes.starts_with('[')) return std::nullopt;
  shapes.remove_prefix(1);
  std::int64_t bytes = 0;
  while (const auto type = take_type(types)) {
    const std::int64_t each = bytes_of_type(*type);
    const auto elements = take_elements(shapes);
    if (each == 0 || !elements) return std::nullopt;
    bytes += *elements * each;
    if (bytes > kMaxElements) return std::nullopt;
  }
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> collective_bytes(EventKind kind, const RawEvent& event) {
  if (event.collective_elements.empty()) {
    const bool is_meant = kind == EventKind::communication && is_host_collective(event.name);
    return is_meant ? tensor_bytes(event.input_shapes, event.input_types) : std::nullopt;
  }
  if (kind != EventKind::kernel && kind != EventKind::communication &&
      event.name != kCollectiveCall) {
    return std::nullopt;
  }
  const std::int64_t elements = integer_from(event.collective_elements).value_or(0);
  const std::int64_t each = bytes_of_type(event.collective_type);
  if (elements <= 0 || elements > kMaxElements || each == 0) return std::nullopt;
  return elements * each;
}

}  // namespace autotuned::traces
