// SPDX-License-Identifier: Apache-2.0
// Tables of the names of an enumeration's values, as they are stored and printed.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace autotuned {

template <class Value, std::size_t kCount>
using EnumNames = std::array<std::pair<Value, std::string_view>, kCount>;

// Returns the name of `value`; "unknown" if the table lacks it.
template <class Value, std::size_t kCount>
[[nodiscard]] constexpr std::string_view enum_name(const EnumNames<Value, kCount>& names,
                                                   Value value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "unknown";
}

template <class Value, std::size_t kCount>
[[nodiscard]] constexpr std::optional<Value> enum_value(const EnumNames<Value, kCount>& names,
                                                        std::string_view name) {
  for (const auto& [value, known] : names) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace autotuned
