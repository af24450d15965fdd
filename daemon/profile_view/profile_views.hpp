// SPDX-License-Identifier: Apache-2.0
// What `autotuned analyze` and `autotuned profile` show of a profile: on the terminal, as JSON, as a page.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/profile_view/profile_table.hpp"
#include "profiler/analysis/profile.hpp"

namespace autotuned::daemon {

enum class ProfileView {
  overview,
  operators,
  kernels,
  modules,
  memory,
  input,
  trace,
  distributed,
};

// "overview", …, in the order above.
[[nodiscard]] const std::vector<std::string>& view_names();
// REQUIRES: `name` is one of them.
[[nodiscard]] ProfileView view_named(std::string_view name);

struct ViewOptions {
  std::vector<ProfileView> views = {ProfileView::overview};
  std::size_t top = 0;    // rows of a table; 0: all in JSON, ten in text
  std::string sort;       // a column of one of the views' tables; empty: each in its own order
  bool by_shape = false;  // operators by the shapes of their inputs too, where they were recorded
  bool by_stack = false;  // and by who called them
  // The time range of the memory view, from the beginning of the recording.
  std::optional<analysis::Interval> range;
  bool as_json = false;
  std::filesystem::path html;  // where to write the page; empty: nowhere
  // An earlier profile, of any depth, to show the difference from; empty: none.
  std::vector<analysis::TraceProfile> before;
};

// How deep a profile must be for these options.
[[nodiscard]] analysis::Depth depth_for(const ViewOptions& options);
// Whether the traces must be read with their stacks.
[[nodiscard]] bool needs_stacks(const ViewOptions& options);

// Prints to `out` (text, or one line of JSON) and writes the page where one is asked for. Errors: `invalid`
// for a column that none of the tables has, and those of writing a file.
// REQUIRES: `ranks` is not empty, and of depth_for(options).
[[nodiscard]] Result<void> show_profile(const std::vector<analysis::TraceProfile>& ranks,
                                        const ViewOptions& options, std::ostream& out);

// A part of a view: lines, then tables, under one heading.
struct ViewSection {
  std::string title;  // empty: no heading
  std::vector<std::string> lines;
  std::vector<Table> tables;
};

// The sections of a view: one for each rank if ranks cannot be summed up; none for the overview.
[[nodiscard]] std::vector<ViewSection> view_sections(
    ProfileView view, const std::vector<analysis::TraceProfile>& ranks, const ViewOptions& options);

}  // namespace autotuned::daemon
