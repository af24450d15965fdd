// SPDX-License-Identifier: Apache-2.0
// A profile as one HTML file that needs nothing else: no network, no other file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "daemon/profile_view/profile_table.hpp"
#include "profiler/analysis/profile.hpp"

namespace autotuned::daemon {

struct PageContent {
  const std::vector<analysis::TraceProfile>& ranks;  // of Depth::plots
  // The difference from an earlier profile; empty if there is none.
  std::vector<Table> difference = {};
  std::vector<std::string> difference_notes = {};
};

// The page has a few megabytes at most, and says what it leaves out of a large trace. No text of the trace can become
// markup or script.
[[nodiscard]] std::string page_of(const PageContent& content);

// Whether the beginning of a file is that of a page of this program with this title, as <title> has it.
[[nodiscard]] bool begins_page(std::string_view head, std::string_view title);

// To be called before traces are read or recorded. ErrorKind::invalid: the page would replace one of `traces`, a
// device, a pipe, a folder, a symbolic link, or a file that is neither an earlier page nor empty.
[[nodiscard]] Result<void> check_page_file(const std::filesystem::path& file,
                                           const std::vector<std::filesystem::path>& traces);

// Replaces the file as a whole or not at all. Errors: also those of check_page_file().
[[nodiscard]] Result<void> write_page(const std::filesystem::path& file,
                                      const PageContent& content);

}  // namespace autotuned::daemon
