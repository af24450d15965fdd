// SPDX-License-Identifier: Apache-2.0
// The manual page of this program, for man(1).
#pragma once

#include <string>

#include "daemon/guide/command_table.hpp"

namespace autotuned::daemon {

struct ManPage {
  std::string version;
  std::string date;         // of the version, YYYY-MM-DD
  std::string description;  // paragraphs are separated by an empty line
  std::string exit_codes;   // a sentence
};

// The page as troff source with man(7) macros: every command of `program` with its options.
[[nodiscard]] std::string man_page(const Command& program, const ManPage& page);

}  // namespace autotuned::daemon
