// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/evidence.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/screen/progress_view.hpp"
#include "storage/history.hpp"

namespace autotuned::faults {

namespace {

std::atomic<int> count_of_wrong = 0;

constexpr std::int64_t kSteps = 10;  // of a training by the fake

// Around the id of a run, the name of its checkpoint.
constexpr std::string_view kCheckpoint = "checkpoint-";
constexpr std::string_view kModel = ".pt";

constexpr std::array kVerdicts = {"accepted  ", "rejected  ", "failed    "};

bool tells_of_a_trial(const std::string& line) {
  return std::ranges::any_of(kVerdicts,
                             [&](const char* verdict) { return line.starts_with(verdict); });
}

std::vector<std::string> lines_of_trials(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // The last one may be cut off: its writer was killed.
    if (!lines.eof() && tells_of_a_trial(line)) found.push_back(line);
  }
  return found;
}

// What a person is shown of it.
std::string shown(const Json& trial) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  {
    daemon::ProgressView view(out, {.is_verbose = true});
    view.show({{"event", "trial_started"}, {"trial", trial}});
    view.show({{"event", "trial_finished"}, {"trial", trial}});
  }
  static_cast<void>(std::fclose(out));
  const std::string all(text, size);
  std::free(text);
  return all;
}

}  // namespace

int wrong() {
  return count_of_wrong;
}

void report_wrong(const std::string& what) {
  ++count_of_wrong;
  std::printf("WRONG: %s\n", what.c_str());
  std::fflush(stdout);
}

Trials finished_trials(const Scene& scene) {
  Trials trials;
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  if (!history) {
    if (history.error().kind != ErrorKind::not_found) report_wrong(history.error().message());
    return trials;
  }
  const auto runs = history->runs({.limit = -1});
  if (!runs) {
    report_wrong(runs.error().message());
    return trials;
  }
  for (const auto& run : *runs) {
    const auto records = history->trials(run.id);
    if (!records) {
      report_wrong(records.error().message());
      return trials;
    }
    for (const TrialRecord& trial : *records) {
      if (trial.verdict == Verdict::running || trial.verdict == Verdict::interrupted) continue;
      trials[run.id.text + "." + std::to_string(trial.number)] =
          to_line(trial.to_json(run.id.text));
    }
  }
  return trials;
}

std::vector<std::string> said_trials(const Outcome& outcome) {
  return lines_of_trials(outcome.err);
}

int said_finished(const Outcome& outcome) {
  return static_cast<int>(said_trials(outcome).size());
}

void check_said(const std::vector<std::string>& said, const Trials& trials,
                const std::string& where) {
  std::multiset<std::string> stored;
  for (const auto& [id, trial] : trials) {
    for (std::string& line : lines_of_trials(shown(Json::parse(trial))))
      stored.insert(std::move(line));
  }
  for (const std::string& line : said) {
    const auto found = stored.find(line);
    if (found == stored.end()) {
      report_wrong(where + ": was said and is not stored: " + line);
    } else {
      stored.erase(found);
    }
  }
}

void check_kept(const Trials& before, const Trials& now, const std::string& where) {
  for (const auto& [id, trial] : before) {
    const auto found = now.find(id);
    if (found == now.end()) {
      report_wrong(where + ": trial " + id + " was finished and is gone");
    } else if (found->second != trial) {
      report_wrong(where + ": trial " + id + " was " + trial + " and is " + found->second);
    }
  }
}

void check_whole(const Scene& scene, const std::string& where) {
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  if (!history) {
    if (history.error().kind != ErrorKind::not_found) {
      report_wrong(where + ": " + history.error().message());
    }
    return;
  }
  const auto integrity = history->check_integrity();
  if (!integrity || integrity->text() != "ok") {
    report_wrong(where + ": " + (integrity ? integrity->text() : integrity.error().message()));
  }
}

void check_right(const Outcome& outcome, const std::string& where, bool has_trained) {
  if (outcome.code != 0) {
    return report_wrong(where + ": exit code " + std::to_string(outcome.code) + ": " + outcome.err);
  }
  const Json run = outcome.json();
  const auto steps = get_integer(member(run, "training"), "steps");
  if (get_string(run, "state").value_or("") != "finished" ||
      steps.value_or(0) != (has_trained ? kSteps : 0)) {
    return report_wrong(where + ": did not end right: " + to_line(run));
  }
  if (!trials_with(run, "running").empty()) report_wrong(where + ": a trial is left running");
  std::map<std::string, int> decided;
  for (const Json& trial : member(run, "trials")) {
    if (trial.at("verdict") == "interrupted") continue;
    ++decided[trial.at("kind").get<std::string>() + " of " + trial.at("change").dump() +
              " against " + trial.at("reference").dump()];
  }
  for (const auto& [what, count] : decided) {
    if (count != 1)
      report_wrong(where + ": the " + what + " was decided " + std::to_string(count) + " times");
  }
}

std::vector<Json> recorded_requests(const Scene& scene) {
  std::vector<Json> requests;
  std::istringstream lines(scene.folder().read("requests.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    Json request = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (request.is_object()) requests.push_back(std::move(request));
  }
  return requests;
}

std::string last_request(const Scene& scene) {
  const std::string record = scene.folder().read("requests.jsonl");
  const std::size_t end = record.rfind('\n');
  if (end == std::string::npos || end == 0) return {};
  const std::size_t before = record.rfind('\n', end - 1);
  const std::size_t start = before == std::string::npos ? 0 : before + 1;
  const Json request =
      Json::parse(record.substr(start, end - start), nullptr, /*allow_exceptions=*/false);
  return get_string(request, "request").value_or("");
}

void check_trainings(const std::vector<Json>& requests, const std::string& where) {
  struct Training {
    std::string plan;
    std::int64_t step = 0;  // the checkpoint held it when this step was begun
  };
  std::map<std::string, Training> by_checkpoint;
  for (const Json& request : requests) {
    const std::string name = get_string(request, "request").value_or("");
    if (name != "train" && name != "train_step") continue;
    const std::string checkpoint = get_string(request, "checkpoint_path").value_or("");
    Training& training = by_checkpoint[checkpoint];
    if (name == "train") {
      const std::string plan = get_string(request, "plan").value_or("");
      if (!training.plan.empty() && training.plan != plan) {
        report_wrong(where + ": " + checkpoint + " is of " + training.plan +
                     ", and was continued by " + plan);
      }
      training.plan = plan;
      continue;
    }
    const std::int64_t step = get_integer(request, "step").value_or(0);
    if (step < training.step) {
      report_wrong(where + ": " + checkpoint + " held step " + std::to_string(training.step) +
                   ", and the training went on from step " + std::to_string(step));
    }
    training.step = step;
  }
}

Files kept_files(const Scene& scene) {
  Files files;
  for (const std::string folder : {"out", "out2"}) {
    std::error_code missing;
    for (std::filesystem::directory_iterator entry(scene.folder() / folder, missing), end;
         !missing && entry != end; entry.increment(missing)) {
      const std::string name = entry->path().filename();
      const bool is_result = name == "model.pt" || name == "best.yaml" || name == "summary.json";
      const bool is_checkpoint = name.starts_with(kCheckpoint) && name.ends_with(kModel);
      if (is_result || is_checkpoint) files.insert(folder + "/" + name);
    }
  }
  return files;
}

void check_files_kept(const Files& before, const Scene& scene, const std::string& where) {
  for (const std::string& file : before) {
    // Asked for by name: a listing may miss one that is being replaced.
    if (std::filesystem::exists(scene.folder() / file)) continue;
    std::string name = std::filesystem::path(file).filename();
    if (name.starts_with(kCheckpoint)) {
      const std::string id =
          name.substr(kCheckpoint.size(), name.size() - kCheckpoint.size() - kModel.size());
      const auto run = stored_run(scene, id);
      if (run && run->state == storage::RunState::finished) continue;
    }
    report_wrong(where + ": " + file + " was there and is gone");
  }
}

void check_nothing_unfinished(const Scene& scene, const std::string& where) {
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  if (!history) return report_wrong(where + ": " + history.error().message());
  const auto runs = history->runs({.limit = -1});
  if (!runs) return report_wrong(where + ": " + runs.error().message());
  for (const storage::RunRow& run : *runs) {
    const bool has_failed = run.state == storage::RunState::failed && !run.error.empty();
    if (run.state == storage::RunState::finished || has_failed) continue;
    report_wrong(where + ": run " + run.id.text + " is left " +
                 std::string(storage::to_string(run.state)));
  }
}

void check_results(const Scene& scene, const std::string& folder) {
  const std::string model = scene.folder().read(folder + "/model.pt");
  if (model != "trained for " + std::to_string(kSteps) + " steps\n") {
    report_wrong("the model in " + folder + " is: " + model);
  }
  if (scene.folder().read(folder + "/best.yaml").empty()) {
    report_wrong("there is no best.yaml in " + folder);
  }
  const Json summary = Json::parse(scene.folder().read(folder + "/summary.json"), nullptr,
                                   /*allow_exceptions=*/false);
  const auto run = stored_run(scene, get_string(summary, "run").value_or("(no summary)"));
  if (run && (run->state != storage::RunState::finished ||
              run->output_dir != (scene.folder() / folder).string())) {
    report_wrong("the summary in " + folder + " is of run " + run->id.text + " into " +
                 run->output_dir);
  }
}

std::optional<storage::RunRow> stored_run(const Scene& scene, const std::string& id) {
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  auto run = history ? history->run(id) : tl::unexpected(history.error());
  if (!run) {
    report_wrong("run '" + id + "': " + run.error().message());
    return std::nullopt;
  }
  return std::move(*run);
}

}  // namespace autotuned::faults
