// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/run_files.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;

struct KnownFile {
  const char* name;  // in the output folder
  const char* what;
};
constexpr std::array kKnown = {
    KnownFile{"model.pt", "the trained model, a state dictionary"},
    KnownFile{"model_ema.pt", "the same with the averages of the weights"},
    KnownFile{"model_best.pt", "the weights at the best evaluation"},
    KnownFile{"model_best_ema.pt", "their averages there, which were evaluated"},
    KnownFile{"training_state.pt", "the state at the end, from which `run --extend` goes on"},
    KnownFile{"best.yaml", "the recipe with the kept configuration"},
    KnownFile{"summary.json", "the result, as `run --json` prints it"},
    KnownFile{"held_out.txt", "the samples that evaluate.split kept from the training"},
    KnownFile{"log/training.jsonl", "training curves; `export` writes them for TensorBoard"},
    KnownFile{"log/start.pt.trace.json.gz", "a trace of the start, for `analyze`"},
    KnownFile{"log/best.pt.trace.json.gz", "a trace of the kept configuration, for `analyze`"},
};
constexpr std::size_t kMaxSummaryBytes = 64 << 20;

// Whether a run that only tunes never writes it.
bool is_of_training(std::string_view name) {
  return name.ends_with(".pt") || name == "log/training.jsonl";
}

void add(const fs::path& path, std::string what, std::vector<RunFile>& files) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);  // fails on what is no file
  if (!failed) files.push_back({path, static_cast<std::int64_t>(bytes), std::move(what)});
}

// The run whose results lie there; empty where it cannot be told.
struct Owner {
  std::string run;
  std::int64_t ended_unix_ns = 0;
};

Owner owner_of(const fs::path& folder) {
  const auto text = read_file(folder / "summary.json", kMaxSummaryBytes);
  if (!text) return {};
  const auto summary = parse_json(*text, "summary.json");
  if (!summary) return {};
  return {.run = get_string(*summary, "run").value_or(""),
          .ended_unix_ns = get_integer(*summary, "ended_unix_ns").value_or(0)};
}

// Whether another run has written there since. One that is at work has written no summary yet: what is there is
// of the run before it.
bool is_of_other(const Owner& owner, const storage::RunRow& run) {
  using storage::RunState;
  if (owner.run.empty() || owner.run == run.id.text) return false;
  // A run that only tunes may have left the results of a training as they were.
  if (has_trained(run)) return true;
  const bool is_at_work =
      (run.state == RunState::tuning || run.state == RunState::training) && !run.is_interrupted;
  return !is_at_work && owner.ended_unix_ns > run.started_unix_ns;
}

// Weights that were saved on the way.
void add_saved(const fs::path& folder, const std::string& run, std::vector<RunFile>& files) {
  std::vector<fs::path> saved;
  // The second is what older versions called it.
  for (const char* const beginning : {"weights-", "epochs-"}) {
    std::error_code failed;
    for (fs::directory_iterator entry(folder / (beginning + run), failed), end;
         !failed && entry != end; entry.increment(failed))
      saved.push_back(entry->path());
  }
  std::ranges::sort(saved);
  for (const fs::path& one : saved) {
    const bool is_of_epoch = one.filename().string().starts_with("model_epoch_");
    add(one, is_of_epoch ? "weights at the end of an epoch" : "weights after so many steps", files);
  }
}

}  // namespace

RunFiles files_of(const storage::RunRow& run) {
  RunFiles found;
  if (run.output_dir.empty()) return found;
  const fs::path folder = run.output_dir;
  const Owner owner = owner_of(folder);
  add(folder / ("checkpoint-" + run.id.text + ".pt"),
      "the checkpoint that the training goes on from", found.files);
  add(folder / ("model_best-" + run.id.text + ".pt"), "the weights at the best evaluation so far",
      found.files);
  add(folder / ("model_best-" + run.id.text + "_ema.pt"),
      "their averages there, which were evaluated", found.files);
  if (is_of_other(owner, run)) {
    found.other_run = owner.run;
    add_saved(folder, run.id.text, found.files);
    return found;
  }
  const bool has_results = owner.run == run.id.text;
  for (const KnownFile& known : kKnown) {
    const bool is_result = std::string_view(known.name).find('/') == std::string_view::npos;
    if (is_result && !has_results) continue;
    if (run.is_tune_only && is_of_training(known.name)) continue;
    add(folder / known.name, known.what, found.files);
  }
  add_saved(folder, run.id.text, found.files);
  std::vector<fs::path> logs;
  std::error_code failed;
  for (fs::directory_iterator entry(folder / "log", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (entry->path().filename().string().starts_with("trainer-")) logs.push_back(entry->path());
  }
  std::ranges::sort(logs);
  for (const fs::path& log : logs)
    add(log, "what a trainer said", found.files);
  // Most trainers say nothing.
  std::erase_if(found.files, [](const RunFile& file) {
    return file.size_bytes == 0 && file.path.filename().string().starts_with("trainer-");
  });
  return found;
}

bool has_trained(const storage::RunRow& run) {
  return run.state == storage::RunState::finished && !run.is_tune_only;
}

std::optional<storage::RunRow> owner_of_model(const storage::History& history,
                                              const std::string& output_dir) {
  const std::string id = owner_of(output_dir).run;
  if (id.empty()) return std::nullopt;
  auto owner = history.run(id);
  if (!owner || owner->id.text != id) return std::nullopt;
  if (!owner->is_tune_only) return *std::move(owner);
  // The run wrote its summary beside the model: of an older version, or of a training that ended later.
  auto runs = history.runs({.recipe = {},
                            .environment = {},
                            .plugin = {},
                            .verdict = {},
                            .since_unix_ns = {},
                            .limit = -1});
  if (!runs) return std::nullopt;
  for (storage::RunRow& other : *runs) {
    if (has_trained(other) && other.output_dir == output_dir) return std::move(other);
  }
  return std::nullopt;
}

std::string files_text(const storage::RunRow& run) {
  if (is_script(run.recipe)) {
    return "files    none: the script writes its own, and what it printed went to its terminal\n";
  }
  const RunFiles found = files_of(run);
  std::string text;
  if (!found.files.empty()) {
    std::vector<std::vector<std::string>> rows = {{"file", "size", "what it is"}};
    for (const RunFile& file : found.files)
      rows.push_back({file.path.string(), format_bytes(file.size_bytes), file.what});
    text = table_text(std::move(rows));
  }
  if (!found.other_run.empty()) {
    text += std::string(text.empty() ? "files    " : "other    ") + printable(run.output_dir) +
            " has those of a later run, " + printable(found.other_run) + "\n";
  }
  return text;
}

}  // namespace autotuned::daemon
