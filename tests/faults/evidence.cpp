// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/evidence.hpp"

#include <atomic>
#include <cstdio>

#include "storage/history.hpp"

namespace autotuned::faults {

namespace {

std::atomic<int> count_of_wrong = 0;

int count_lines(const std::string& text, const std::string& beginning) {
  int count = 0;
  for (std::size_t at = text.find("\n" + beginning); at != std::string::npos;
       at = text.find("\n" + beginning, at + 1)) {
    ++count;
  }
  return count;
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

int said_finished(const Outcome& outcome) {
  int count = 0;
  for (const char* verdict : {"accepted  ", "rejected  ", "failed    "})
    count += count_lines(outcome.err, verdict);
  return count;
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
  if (!integrity || *integrity != "ok") {
    report_wrong(where + ": " + (integrity ? *integrity : integrity.error().message()));
  }
}

void check_right(const Outcome& outcome, const std::string& where) {
  if (outcome.code != 0) {
    return report_wrong(where + ": exit code " + std::to_string(outcome.code) + ": " + outcome.err);
  }
  const Json run = outcome.json();
  const auto steps = get_integer(member(run, "training"), "steps");
  if (get_string(run, "state").value_or("") != "finished" || steps.value_or(0) != 10) {
    return report_wrong(where + ": did not end right: " + to_line(run));
  }
  if (!trials_with(run, "running").empty()) report_wrong(where + ": a trial is left running");
  std::map<std::string, int> decided;
  for (const Json& trial : trials_with(run, "accepted"))
    ++decided[trial.at("kind").get<std::string>() + trial.at("change").dump()];
  for (const auto& [what, count] : decided) {
    if (count != 1)
      report_wrong(where + ": " + what + " was accepted " + std::to_string(count) + " times");
  }
}

}  // namespace autotuned::faults
