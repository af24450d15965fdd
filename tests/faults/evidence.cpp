// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/evidence.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

#include "daemon/cli/progress_view.hpp"
#include "storage/history.hpp"

namespace autotuned::faults {

namespace {

std::atomic<int> count_of_wrong = 0;

constexpr std::array kVerdicts = {"accepted  ", "rejected  ", "failed    "};

bool tells_of_a_trial(const std::string& line) {
  return std::ranges::any_of(kVerdicts,
                             [&](const char* verdict) { return line.starts_with(verdict); });
}

std::vector<std::string> lines_of_trials(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // The last one may be cut off: whoever wrote it was killed.
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
    daemon::ProgressView view(out, /*is_live=*/false);
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

}  // namespace autotuned::faults
