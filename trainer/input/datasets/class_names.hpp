// SPDX-License-Identifier: Apache-2.0
// Numbers for labels that are names.
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

// The numbers of `found`: their positions in `known`, or in `found` itself if `known` is empty. ErrorKind::invalid: the
// names of `found` that `known` lacks; `where` becomes the place of the error.
[[nodiscard]] Result<ClassNumbers> number_classes(const std::set<std::string>& found,
                                                  std::span<const std::string> known,
                                                  const std::string& where);

// The names by their numbers.
[[nodiscard]] std::vector<std::string> names_of(const ClassNumbers& numbers);

// "a, b and 3 others".
[[nodiscard]] std::string named(const std::vector<std::string>& names);

}  // namespace autotuned::input
