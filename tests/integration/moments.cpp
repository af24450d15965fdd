// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/moments.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "storage/history.hpp"

namespace autotuned {
namespace {

Phase phase_of(const TrialRecord& trial) {
  if (trial.kind == TrialKind::confirmation) return Phase::confirmation;
  // The knob of the job that needs a restart.
  return trial.change.find("memory.malloc") != nullptr ? Phase::processes : Phase::trial;
}

struct LastRun {
  storage::RunRow run;
  std::vector<TrialRecord> trials;
};

std::optional<LastRun> last_run(const Scene& scene) {
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  if (!history) return std::nullopt;
  auto run = history->run("last");
  if (!run) return std::nullopt;
  auto trials = history->trials(run->id);
  EXPECT_TRUE(trials);
  if (!trials) return std::nullopt;
  return LastRun{std::move(*run), std::move(*trials)};
}

// The phase of a request, by its name and by the trial that went on when it came.
std::optional<Phase> phase_of(const Json& request, const std::vector<TrialRecord>& trials) {
  static const std::set<std::string> kOfTraining = {"train", "train_step", "save"};
  if (kOfTraining.contains(request.at("request").get<std::string>())) return Phase::training;
  const std::int64_t time_ns = request.at("unix_ns");
  if (time_ns < trials.front().started_unix_ns) return Phase::baseline;
  for (const TrialRecord& trial : trials) {
    const std::int64_t end_ns = trial.started_unix_ns + trial.duration_ns;
    if (time_ns >= trial.started_unix_ns && time_ns < end_ns) return phase_of(trial);
  }
  return std::nullopt;
}

}  // namespace

std::vector<Json> moments_of_a_run(const std::map<Phase, int>& wanted) {
  const Scene scene;
  const Outcome outcome = scene.run();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto last = last_run(scene);
  if (!last || last->trials.empty()) {
    ADD_FAILURE() << "the run that is measured has no trials";
    return {};
  }
  std::map<Phase, std::vector<std::int64_t>> lines;
  for (const Json& request : scene.fake().requests()) {
    if (const auto phase = phase_of(request, last->trials))
      lines[*phase].push_back(request.at("line").get<std::int64_t>());
  }
  std::vector<Json> moments;
  for (const auto& [phase, count] : wanted) {
    const std::vector<std::int64_t>& of_phase = lines[phase];
    EXPECT_GE(of_phase.size(), 2 * static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count) && !of_phase.empty(); ++i) {
      const std::size_t middle =
          (2 * i + 1) * of_phase.size() / (2 * static_cast<std::size_t>(count));
      moments.push_back({{"at", of_phase.at(middle)}});
    }
  }
  return moments;
}

std::optional<Phase> phase_of_last_run(const Scene& scene) {
  const auto last = last_run(scene);
  if (!last) return std::nullopt;
  if (last->run.state == storage::RunState::training) return Phase::training;
  if (last->trials.empty()) return Phase::baseline;
  const TrialRecord& trial = last->trials.back();
  const bool was_going_on =
      trial.verdict == Verdict::running || trial.verdict == Verdict::interrupted;
  return was_going_on ? std::optional(phase_of(trial)) : std::nullopt;
}

}  // namespace autotuned
