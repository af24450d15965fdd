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

// Replaces the file as a whole or not at all.
[[nodiscard]] Result<void> write_page(const std::filesystem::path& file,
                                      const PageContent& content);

}  // namespace autotuned::daemon
