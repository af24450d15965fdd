// SPDX-License-Identifier: Apache-2.0
// Text of others on its way to a terminal.
#pragma once

#include <string>

namespace autotuned {

// With '?' for each byte that could steer a terminal: control characters, ends of lines and tabs included.
[[nodiscard]] std::string printable(std::string text);

}  // namespace autotuned
