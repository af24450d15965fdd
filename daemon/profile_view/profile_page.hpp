// SPDX-License-Identifier: Apache-2.0
// A profile as one HTML file that needs nothing else: no network, no other file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/profile_view/profile_table.hpp"
#include "profiler/analysis/profile.hpp"

namespace autotuned::daemon {

struct PageContent {
  const std::vector<analysis::Profile>& ranks;  // of Depth::plots
  // Of two profiles, where there are two.
  std::vector<Table> difference = {};
  std::vector<std::string> difference_notes = {};
};

// A few megabytes at most: what is left out of a large trace, the page says. Nothing of the trace can become
// markup or script.
[[nodiscard]] std::string page_of(const PageContent& content);

// Before traces are read or recorded: ErrorKind::invalid if the page would replace one of `traces`, a device, a pipe, a
// folder or a symbolic link.
[[nodiscard]] Result<void> check_page_file(const std::filesystem::path& file,
                                           const std::vector<std::filesystem::path>& traces);

// Replaces the file as a whole or not at all. Errors: also that of check_output_file().
[[nodiscard]] Result<void> write_page(const std::filesystem::path& file,
                                      const PageContent& content);

}  // namespace autotuned::daemon
