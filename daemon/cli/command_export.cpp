// SPDX-License-Identifier: Apache-2.0
// export: a run for others, as a page or as figures that other programs plot.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/logs/event_file.hpp"
#include "daemon/logs/log_points.hpp"
#include "daemon/logs/training_log.hpp"
#include "daemon/profile_view/profile_page.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/session/output_folder.hpp"
#include "daemon/web/page_data.hpp"
#include "daemon/web/page_markup.hpp"
#include "storage/location.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::size_t kMaxBytesRead = 1 << 20;

// A file that has been written, for the report at the end.
struct Written {
  std::filesystem::path file;
  const char* what;
  std::size_t bytes;
};

Result<void> write(const std::filesystem::path& file, const char* what, std::string_view content,
                   std::vector<Written>& written) {
  auto done = check_output_file(file, /*may_replace=*/true);
  if (done) done = write_file_atomically(file, content);
  if (done) written.push_back({file, what, content.size()});
  return done;
}

Result<void> write_logs(const ExportOptions& options, const storage::History& history,
                        const NamedRun& named, std::vector<Written>& written) {
  const std::string& run = named.run.id.text;
  const auto earlier = runs_before(history, named.run);
  if (!earlier) return tl::unexpected(earlier.error());
  const std::vector<std::string> before = ids_before(*earlier, named.run);
  // A script has no output folder of ours.
  const std::filesystem::path output = named.run.output_dir;
  const std::vector<Json> log = output.empty()
                                    ? std::vector<Json>()
                                    : read_training_log(output / "log" / kTrainingLog, run, before);
  std::vector<LogPoint> points = training_points(log);
  const std::vector<LogPoint> trials = trial_points(named.trials);
  points.insert(points.end(), trials.begin(), trials.end());
  if (!options.tensorboard.empty()) {
    if (!is_run_id(run)) {
      return fail(ErrorKind::corrupt, "the run has an id that this program does not make", run,
                  "it cannot name a folder: choose --csv or --jsonl");
    }
    // A folder for each run: TensorBoard shows them as runs, beside each other.
    const std::filesystem::path folder = options.tensorboard / run;
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) {
      return tl::unexpected(
          system_error(failed.value(), "cannot make the folder", folder.string()));
    }
    const std::int64_t start_ns = named.run.started_unix_ns;
    auto done = write(folder / event_file_name(start_ns), "for TensorBoard",
                      event_file_of(points, start_ns), written);
    if (!done) return done;
  }
  if (!options.csv.empty()) {
    if (auto done = write(options.csv, "as CSV", csv_of(run, points), written); !done) return done;
  }
  if (!options.jsonl.empty()) {
    const std::string lines = jsonl_of(run, log, named.trials);
    if (auto done = write(options.jsonl, "as JSON lines", lines, written); !done) return done;
  }
  return {};
}

Result<void> write_all(const ExportOptions& options, const storage::History& history,
                       std::vector<Written>& written) {
  if (!options.html.empty()) {
    const auto run = run_page_json(history, options.run);
    if (!run) return tl::unexpected(run.error());
    const auto text = run_page_text(history, options.run);
    if (!text) return tl::unexpected(text.error());
    auto done = write(options.html, "as a page", page_of_run(*run, *text), written);
    if (!done) return done;
  }
  if (options.tensorboard.empty() && options.csv.empty() && options.jsonl.empty()) return {};
  const auto named = find_named_run(history, options.run);
  if (!named) return tl::unexpected(named.error());
  return write_logs(options, history, *named, written);
}

// The second would replace the first. Empty where there is none.
std::string file_named_twice(const ExportOptions& options) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path* file : {&options.html, &options.csv, &options.jsonl}) {
    if (file->empty()) continue;
    std::error_code ignored;
    const auto place = std::filesystem::absolute(*file, ignored).lexically_normal();
    if (std::ranges::find(files, place) != files.end()) return file->string();
    files.push_back(place);
  }
  return {};
}

// Whether a run writes its logs beside the file. What an export would write there could be taken for a log.
bool is_among_logs(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(
      std::filesystem::absolute(file, ignored).parent_path() / kOutputLock, ignored);
}

// A line that jsonl_of() makes of a trial. No log of a training has one.
bool is_of_trial(const Json& line) {
  return member(line, "id").is_string() && member(line, "reference").is_object();
}

// Whether the file is an earlier export, or empty. Any other file, such as a model named by mistake, must not be
// replaced.
bool is_of_export(const std::filesystem::path& file) {
  const auto head = first_bytes(file, kMaxBytesRead);
  if (!head || head->empty()) return head.has_value();
  if (head->starts_with(csv_of({}, {}))) return true;
  if (begins_page(*head, "autotuned")) return true;
  // The lines of a training's log come first. Without a trial behind them, the file may be such a log.
  const auto first = parse_json(head->substr(0, head->find('\n')), file.string());
  const auto last = parse_json(last_lines(file, 1, kMaxBytesRead), file.string());
  if (!first || !last || !is_of_trial(*last)) return false;
  return is_of_trial(*first) ||
         (member(*first, "run").is_string() && member(*first, "unix_ns").is_number());
}

// All of them before the first is written.
Result<void> check_files(const ExportOptions& options, const std::filesystem::path& history) {
  if (!options.tensorboard.empty()) {
    if (auto checked = storage::check_no_side_file(options.tensorboard); !checked) return checked;
  }
  for (const std::filesystem::path* file : {&options.html, &options.csv, &options.jsonl}) {
    if (file->empty()) continue;
    std::error_code ignored;
    if (std::filesystem::equivalent(*file, history, ignored)) {
      return fail(ErrorKind::invalid, "this is the history itself", file->string(),
                  "name another file");
    }
    if (auto checked = storage::check_no_side_file(*file); !checked) return checked;
    if (is_among_logs(*file)) {
      return fail(ErrorKind::invalid, "a run keeps its logs in this folder", file->string(),
                  "name a file in another folder");
    }
    if (auto checked = check_output_file(*file, options.overwrite); !checked) return checked;
    if (std::filesystem::exists(*file, ignored) && !is_of_export(*file)) {
      return fail(ErrorKind::invalid,
                  "it is not a file that `export` has written, and would be lost", file->string(),
                  "name another file, or remove this one");
    }
  }
  return {};
}

}  // namespace

int export_run(const ExportOptions& options) {
  if (options.html.empty() && options.tensorboard.empty() && options.csv.empty() &&
      options.jsonl.empty()) {
    return report_error({ErrorKind::invalid,
                         "no output was named",
                         {},
                         "give --html FILE, --tensorboard DIR, --csv FILE or --jsonl FILE"},
                        kUsageError);
  }
  if (const std::string twice = file_named_twice(options); !twice.empty()) {
    return report_error({ErrorKind::invalid, "two outputs have the same name", twice,
                         "give each a file of its own"},
                        kUsageError);
  }
  auto history = open_history(options.history, storage::Access::read_only);
  if (!history) return report_error(history.error());
  if (auto checked = check_files(options, history->path()); !checked) {
    return report_error(checked.error(), exit_code_of(checked.error()));
  }
  std::vector<Written> written;
  if (auto done = write_all(options, *history, written); !done) {
    return report_error(done.error(), exit_code_of(done.error()));
  }
  if (options.as_json) {
    Json files = Json::array();
    for (const Written& one : written)
      files.push_back({{"file", one.file.string()}, {"size_bytes", one.bytes}});
    Json answer = files.front();
    answer["files"] = files;
    std::cout << to_line(answer) << "\n";
    return kDone;
  }
  for (const Written& one : written)
    std::cerr << "wrote the run " << one.what << ": " << one.file.string() << "\n";
  return kDone;
}

}  // namespace autotuned::daemon
