// SPDX-License-Identifier: Apache-2.0
// Numbers classes whose labels are names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
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

// The name without details that a reader overlooks: blanks around it, leading zeros of its digits, and case.
[[nodiscard]] std::string plain_form(std::string_view name);

// A sentence that some of these names have the same plain_form(), with their number and an example; empty if none do.
// Such classes are probably meant to be one.
[[nodiscard]] std::string alike_names_text(std::span<const std::string> names);

// "a, b and 3 others".
[[nodiscard]] std::string named(const std::vector<std::string>& names);

}  // namespace autotuned::input
