// SPDX-License-Identifier: Apache-2.0
// Text of others on its way to a terminal.
#pragma once

#include <string>

namespace autotuned {

// With '?' for each byte that could steer a terminal: control characters, ends of lines and tabs included.
[[nodiscard]] std::string printable(std::string text);

// The same, but ends of lines stay as they are.
[[nodiscard]] std::string printable_lines(std::string text);

}  // namespace autotuned
