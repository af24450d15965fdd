// SPDX-License-Identifier: Apache-2.0
// Labels that are names, as numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::input {

using ClassNumbers = std::map<std::string, std::int64_t, std::less<>>;

// The numbers of `found`: their places in `known`, or in their own order where `known` is empty. ErrorKind::invalid
// names those of `found` that `known` lacks; `where` is its place.
[[nodiscard]] Result<ClassNumbers> number_classes(const std::set<std::string>& found,
                                                  std::span<const std::string> known,
                                                  const std::string& where);

// The names by their numbers.
[[nodiscard]] std::vector<std::string> names_of(const ClassNumbers& numbers);

// "a, b and 3 others".
[[nodiscard]] std::string named(const std::vector<std::string>& names);

}  // namespace autotuned::input
