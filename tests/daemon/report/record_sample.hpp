// SPDX-License-Identifier: Apache-2.0
// A run as the history holds it, with one trial of each kind that a story tells apart.
#pragma once

#include <string>
#include <utility>

#include "daemon/report/story.hpp"
#include "daemon/report/training_fallback.hpp"

namespace autotuned::daemon {

inline Configuration sample_configuration(bool set_to_none, std::int64_t workers) {
  Configuration result;
  result.set("loader.workers", workers);
  result.set("optimizer.set_to_none", set_to_none);
  return result;
}

inline TrialRecord sample_trial(int number, std::string plugin, Verdict verdict,
                                Estimate estimate) {
  TrialRecord trial;
  trial.number = number;
  trial.plugin = std::move(plugin);
  trial.reference = sample_configuration(false, 0);
  trial.change.set("optimizer.set_to_none", true);
  trial.proposal_reason = "it looked promising";
  trial.verdict = verdict;
  trial.estimate = estimate;
  return trial;
}

inline Json sample_profile(const Configuration& configuration, double wait_ratio) {
  return {{"configuration", configuration.to_json()},
          {"metrics",
           {{"step.duration_ns", 8e6},
            {"step.data_wait_ratio", wait_ratio},
            {"step.forward_ratio", 0.2},
            {"step.backward_ratio", 0.79 - wait_ratio},
            {"step.loss_ratio", 0.004},
            {"step.other_ratio", 0.006}}},
          {"spans",
           {{{"name", "step"}, {"count", 10}, {"total_ns", 80'000'000}},
            {{"name", "forward"}, {"count", 10}, {"total_ns", 16'000'000}}}},
          {"operators",
           {{{"name", "aten::addmm"}, {"calls", 10}, {"self_ns", 16'000'000}},
            {{"name", "AddmmBackward0"}, {"calls", 10}, {"self_ns", 60'000'000}}}},
          {"taken_unix_ns", 1},
          {"findings", Json::array()}};
}

inline Json sample_finding(const std::string& id, const Json& plugin) {
  return {{"id", id},
          {"signal", "parts.data_loading_ratio"},
          {"value", 0.41},
          {"threshold", 0.05},
          {"fires", "over"},
          {"evidence", "41.0 % of the step is spent waiting"},
          {"plugin", plugin},
          {"knob", nullptr},
          {"advice", "do something about it"}};
}

// The same with what acting on it saves, and how.
inline Json sample_finding_with_remedy() {
  Json finding = sample_finding("data_loading", "num_workers");
  finding["severity"] = "high";
  finding["gain"] = "at most 41.0 % of the step (1.69 x the rate), if no step waits any more";
  finding["code"] = "loader = DataLoader(data, num_workers=4)";
  return finding;
}

// A run that goes on with the training of sample_record().
inline constexpr const char* kExtendedRun = "r-20261121-7f3a9c";
inline constexpr const char* kExtendingRun = "r-20261122-00e1f2";

// Set_to_none is kept (trial 1), nothing else is; 100 s of tuning bought a quarter more speed.
inline RunRecord sample_record() {
  RunRecord record;
  storage::RunRow& run = record.run;
  run.id = {"r-20261121-7f3a9c"};
  run.recipe_name = "small";
  run.state = storage::RunState::finished;
  run.recipe = {{"model", {{"type", "mlp"}}},
                {"data", {{"type", "synthetic"}}},
                {"optimizer", {{"type", "sgd"}}},
                {"train", {{"batch_size", 8}}}};
  run.starting = sample_configuration(false, 0);
  run.best = sample_configuration(true, 0);
  run.baseline_samples_per_second = 1000;
  run.best_samples_per_second = 1250;
  run.speedup = {.ratio = 1.25, .low = 1.2, .high = 1.5, .pairs = 20};
  run.ceiling_samples_per_second = 2500;
  run.ceiling_bound_by = "compute";
  run.ceiling_ladder = {
      {{"rung", "raw_bytes"}, {"samples_per_second", 1250}, {"reached_ratio", 1.0}},
      {{"rung", "made_samples"}, {"samples_per_second", 2000}, {"reached_ratio", 0.625}},
      {{"rung", "device_batch"}, {"samples_per_second", 2500}, {"reached_ratio", 0.5}}};
  run.tuning_duration_ns = 100'000'000'000;
  run.training = {{"samples", 600'000}, {"duration_ns", 480'000'000'000}};
  record.environment = storage::EnvironmentRow{.key = "e1",
                                               .facts = {{"cpu_model", "a CPU"},
                                                         {"cpus_allowed", 2},
                                                         {"memory_allowed_bytes", 2'147'483'648}},
                                               .libtorch = "2.11.0",
                                               .build = "0"};
  record.profiles = {sample_profile(run.starting, 0.41), sample_profile(run.best, 0.1)};

  record.trials.push_back(sample_trial(1, "set_to_none", Verdict::accepted, {1.25, 1.2, 1.5, 20}));
  record.checks[1] = {{.risk = "exact", .passed = true, .steps = 8, .detail = "all are equal"}};
  TrialRecord confirmation = sample_trial(2, "autotuned", Verdict::accepted, {1.25, 1.2, 1.5, 20});
  confirmation.kind = TrialKind::confirmation;
  record.trials.push_back(confirmation);
  return record;
}

// The training went on without an extension that its speed-up was measured with.
inline void leave_out_extension(RunRecord& record) {
  Error error{ErrorKind::internal, "plugin mine: leaves other labels", "", ""};
  error.extensions = {"mine"};
  add_fallback(record.run.starting, error, 7, record.run, 5);
}

// A case of a view: what is other in a run, in words, and how it comes about.
struct Variant {
  const char* given;
  void (*change)(RunRecord& record);
};

inline RunRecord extending_record() {
  RunRecord record = sample_record();
  record.run.id = {kExtendingRun};
  record.run.state = storage::RunState::cancelled;
  record.run.plan = Json{{"epochs", 20}, {"seed", 1}, {"extends", kExtendedRun}}.dump();
  record.run.training = Json::object();
  return record;
}

}  // namespace autotuned::daemon
