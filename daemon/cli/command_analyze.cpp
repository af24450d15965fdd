// SPDX-License-Identifier: Apache-2.0
// analyze, findings: what the traces of any PyTorch program tell.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <limits>
#include <set>
#include <sstream>
#include <vector>

#include "base/utf8.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/profile_view/profile_page.hpp"
#include "daemon/profile_view/profile_views.hpp"
#include "daemon/profile_view/trace_report.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "profiler/traces/reader.hpp"
#include "storage/location.hpp"

namespace autotuned::daemon {

namespace {

// Ranks must tell traces apart: files that name none, or the same one, are counted instead.
void number_ranks(std::vector<analysis::TraceProfile>& profiles) {
  std::set<int> ranks;
  for (const analysis::TraceProfile& profile : profiles)
    ranks.insert(profile.summary.rank);
  if (ranks.size() < profiles.size()) {
    report_warning(
        "several of these traces have the same rank, so ranks are numbered in the order of the "
        "files; a comparison of ranks means something only for traces of one run");
    for (std::size_t i = 0; i < profiles.size(); ++i)
      profiles[i].summary.rank = static_cast<int>(i);
  }
  std::ranges::stable_sort(
      profiles, {}, [](const analysis::TraceProfile& profile) { return profile.summary.rank; });
}

// The profiles of the files that could be read; `code` becomes the exit code of the first error.
std::vector<analysis::TraceProfile> read_profiles(const std::vector<std::filesystem::path>& files,
                                                  analysis::Depth depth,
                                                  traces::ReadOptions reading, int& code) {
  std::vector<analysis::TraceProfile> profiles;
  for (const std::filesystem::path& file : files) {
    // Traces are large: each is dropped before the next one is read.
    const auto trace = traces::read_trace(file, reading);
    if (!trace) {
      code = report_error(trace.error(), exit_code_of(trace.error()));
      continue;
    }
    for (const std::string& what : trace->damage)
      report_warning(file.string() + ": " + what);
    if (!trace->is_complete && code == kDone) code = kWorkFailed;
    profiles.push_back(analysis::profile_of(*trace, depth, static_cast<int>(profiles.size())));
  }
  if (!profiles.empty()) number_ranks(profiles);
  return profiles;
}

// "10:25.5" in milliseconds; either end may be left out.
Result<analysis::Interval> range_from(const std::string& text) {
  const auto refuse = [&] {
    return fail(
        ErrorKind::invalid, "'" + short_for_message(text) + "' is no range of time", "--range",
        "give FROM:TO in milliseconds from the beginning of the recording, such as 10:25.5");
  };
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return refuse();
  analysis::Interval range{0, std::numeric_limits<std::int64_t>::max()};
  const auto read = [](const std::string& word, std::int64_t& ns) {
    if (word.empty()) return true;
    double ms = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), ms);
    if (error != std::errc() || end != word.data() + word.size()) return false;
    constexpr double kMaxMs = 1e12;  // 30 years
    if (!(ms >= 0 && ms <= kMaxMs)) return false;
    ns = static_cast<std::int64_t>(ms * 1e6);
    return true;
  };
  if (!read(text.substr(0, colon), range.start_ns)) return refuse();
  if (!read(text.substr(colon + 1), range.end_ns)) return refuse();
  if (range.end_ns <= range.start_ns) return refuse();
  return range;
}

// Options that only some views obey, where none of those is asked for.
void warn_of_idle_options(const AnalyzeOptions& options) {
  const auto is_shown = [&](const char* view) {
    return std::ranges::find(options.views, view) != options.views.end();
  };
  if (!options.range.empty() && !is_shown("memory")) {
    report_warning("--range changes nothing here: it is for --view memory");
  }
  if ((options.by_shape || options.by_stack) && !is_shown("operators")) {
    report_warning(std::string(options.by_shape ? "--shapes" : "--stacks") +
                   " changes nothing here: it is for --view operators");
  }
}

}  // namespace

int analyze(const AnalyzeOptions& options) {
  ViewOptions views{.top = options.top,
                    .sort = options.sort,
                    .by_shape = options.by_shape,
                    .by_stack = options.by_stack,
                    .as_json = options.as_json,
                    .html = options.html};
  views.views.clear();
  for (const std::string& view : options.views)
    views.views.push_back(view_named(view));
  if (!options.range.empty()) {
    const auto range = range_from(options.range);
    if (!range) return report_error(range.error(), kUsageError);
    views.range = *range;
  }
  if (!options.html.empty()) {
    std::vector<std::filesystem::path> traces = options.traces;
    traces.insert(traces.end(), options.against.begin(), options.against.end());
    if (auto checked = storage::check_no_side_file(options.html); !checked) {
      return report_error(checked.error(), exit_code_of(checked.error()));
    }
    if (auto checked = check_page_file(options.html, traces); !checked) {
      return report_error(checked.error(), exit_code_of(checked.error()));
    }
  }
  warn_of_idle_options(options);
  int code = kDone;
  // A difference needs the depth of all views.
  const analysis::Depth depth = options.against.empty()
                                    ? depth_for(views)
                                    : std::max(depth_for(views), analysis::Depth::views);
  const auto profiles =
      read_profiles(options.traces, depth, {.with_stacks = needs_stacks(views)}, code);
  if (profiles.empty()) return code;
  if (!options.against.empty()) {
    views.before = read_profiles(options.against, analysis::Depth::views, {}, code);
    if (views.before.empty()) return code;
  }
  std::ostringstream text;
  const auto shown = show_profile(profiles, views, options.as_json ? std::cout : text);
  if (!shown) return report_error(shown.error(), exit_code_of(shown.error()));
  print_text(text.str());
  return code;
}

int print_findings(bool as_json) {
  if (as_json) {
    std::cout << to_line(rules_json()) << "\n";
  } else {
    print_text(rules_text());
  }
  return kDone;
}

}  // namespace autotuned::daemon
