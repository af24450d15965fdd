// SPDX-License-Identifier: Apache-2.0
#include "daemon/logs/training_log.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <compare>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kMinBetween = std::chrono::seconds(1);
// After this many times the least distance between lines, the distance grows with the elapsed time: a training of ten
// times the length has 23,000 lines more.
constexpr int kEvenLines = 10'000;

// Between two lines of a training that has gone on for so long.
nanoseconds distance_after(nanoseconds elapsed) {
  return std::max(kMinBetween, elapsed / kEvenLines);
}

// Figures alone: nobody plots a text. Totals are the same in every line.
void copy_numbers(const Json& from, const std::string& prefix, Json& to) {
  for (const auto& [name, value] : from.items()) {
    if (!value.is_number() || name.ends_with("_total")) continue;
    to[prefix + name] = value;
  }
}

// Whether a line of the log is of that run, or of one before it.
bool is_of(const Json& line, const std::string& run, const std::vector<std::string>& before) {
  const std::string written_by = get_string(line, "run").value_or("");
  return written_by == run || std::ranges::find(before, written_by) != before.end();
}

// Compares the positions of two lines: by samples if both have them, because steps change with the batch size;
// otherwise by steps, which both have.
std::strong_ordering compare_places(const Json& one, const Json& other) {
  for (const char* field : {"samples", "step"}) {
    const auto mine = get_integer(one, field);
    const auto theirs = get_integer(other, field);
    if (mine && theirs) return *mine <=> *theirs;
  }
  return std::strong_ordering::equal;
}

// Whether this is a regular file with a single name. A link in the folder of a run could lead to a file of the user,
// and opening a pipe blocks.
bool is_own_file(const std::filesystem::path& file) {
  struct stat status {};
  return ::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
}

// Nothing follows that would tell the end.
bool is_last(const Json& progress) {
  const auto step = get_integer(progress, "step");
  const auto total = get_integer(progress, "steps_total");
  return step && total && *step >= *total;
}

}  // namespace

Result<TrainingLog> TrainingLog::open(const std::filesystem::path& file, const std::string& run,
                                      const std::vector<std::string>& before) {
  std::string first;
  if (is_own_file(file)) {
    if (std::ifstream earlier(file); earlier) std::getline(earlier, first);
  } else {
    // Removes the name, not the target of a link. If it cannot be removed, such as a folder, it cannot be opened
    // either.
    (void)::unlink(file.c_str());
  }
  const auto line = parse_json(first, file.string());
  // The file of an extended training may begin with lines of unknown earlier runs; each line is checked when it is
  // read.
  const bool goes_on = !before.empty() || (line && is_of(*line, run, before));
  errno = 0;
  std::ofstream stream(file, goes_on ? std::ios::app : std::ios::trunc);
  if (!stream) {
    return tl::unexpected(
        system_error(errno, "cannot write the log of the training", file.string()));
  }
  // A kill may have cut the last line.
  if (goes_on) stream << "\n";
  return TrainingLog(std::move(stream), run);
}

bool TrainingLog::add(const Json& progress, std::int64_t unix_ns, nanoseconds now) {
  const Json& evaluation = member(progress, "evaluation");
  const auto step = get_integer(progress, "step");
  if (!evaluation.is_object() && !step) return stream_.good();
  Json line = {{"run", run_}, {"unix_ns", unix_ns}};
  if (evaluation.is_object()) {
    // Steps are told at times of their own. A trainer of an older version does not say after which one it evaluated.
    line["step"] = get_integer(evaluation, "step").value_or(step_);
    if (const auto samples = get_integer(evaluation, "trained_samples")) {
      line["samples"] = *samples;
    } else if (samples_) {
      line["samples"] = *samples_;
    }
    copy_numbers(evaluation, "test_", line);
    if (const auto epoch = get_integer(evaluation, "epoch")) line["epoch"] = *epoch;
    for (const char* name : {"test_epoch", "test_samples", "test_step", "test_trained_samples"})
      line.erase(name);
  } else {
    step_ = *step;
    const auto samples = get_integer(progress, "samples");
    samples_ = samples ? std::optional(*samples) : std::nullopt;
    if (!std::exchange(has_begun_, true)) {
      begun_ = now;
    } else if (now - written_ < distance_after(now - begun_) && !is_last(progress)) {
      return stream_.good();
    }
    written_ = now;
    copy_numbers(progress, "", line);
  }
  stream_ << to_line(line) << "\n" << std::flush;
  return stream_.good();
}

std::vector<Json> read_training_log(const std::filesystem::path& file, const std::string& run,
                                    const std::vector<std::string>& before) {
  std::vector<Json> lines;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return lines;
  std::ifstream stream(file);
  for (std::string text; std::getline(stream, text);) {
    auto line = parse_json(text, file.string());
    if (!line || !is_of(*line, run, before)) continue;
    const auto step = get_integer(*line, "step");
    if (!step) continue;
    // An evaluation has the place of the step before it.
    while (!lines.empty() && compare_places(lines.back(), *line) > 0)
      lines.pop_back();
    const bool is_again = !lines.empty() && compare_places(lines.back(), *line) == 0 &&
                          lines.back().contains("loss") == line->contains("loss");
    if (is_again) lines.pop_back();
    lines.push_back(*std::move(line));
  }
  return lines;
}

}  // namespace autotuned::daemon
