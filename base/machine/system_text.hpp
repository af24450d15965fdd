// SPDX-License-Identifier: Apache-2.0
// Text files of the kernel: /proc, /sys, control groups.
#pragma once

#include <cstddef>
#include <string>

#include "base/file.hpp"

namespace autotuned {

// Returns the text of such a file without newlines at its end; an empty text if the file cannot be read or is larger than 64 MiB.
// /proc/cpuinfo of a machine with 4,096 CPUs is smaller.
[[nodiscard]] inline std::string system_text(const std::string& file) {
  std::string text = read_file(file, std::size_t{64} << 20U).value_or("");
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

}  // namespace autotuned
