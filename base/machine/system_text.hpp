// SPDX-License-Identifier: Apache-2.0
// Text files of the kernel: /proc, /sys, control groups.
#pragma once

#include <cstddef>
#include <string>

#include "base/file.hpp"

namespace autotuned {

// The text of such a file without line ends at its end; empty if it cannot be read or is larger than 64 MiB, which the
// cpuinfo of a machine with 4,096 CPUs is not.
[[nodiscard]] inline std::string system_text(const std::string& file) {
  std::string text = read_file(file, std::size_t{64} << 20U).value_or("");
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

}  // namespace autotuned
