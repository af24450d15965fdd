// SPDX-License-Identifier: Apache-2.0
#include "tests/storage/sample.hpp"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

namespace autotuned::storage {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

Configuration configuration(std::int64_t workers) {
  Configuration values;
  values.set("loader.workers", workers);
  values.set("optimizer.set_to_none", true);
  values.set("precision.autocast", std::string("bf16"));
  values.set("rate", 0.1);
  return values;
}

}  // namespace

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

EnvironmentRow sample_environment(const std::string& key) {
  return {.key = key,
          .facts = {{"cpu_model", "a CPU"}, {"cpus_allowed", 2}},
          .libtorch = "2.11.0",
          .build = "0.1.0"};
}

RecipeRow sample_recipe(const std::string& hash) {
  return {.hash = hash, .name = "fashion", .path = "fashion.yaml", .content = {{"autotuned", 1}}};
}

RunRow sample_run(const std::string& id) {
  return {.id = RunId{id},
          .recipe_hash = "h1",
          .recipe_name = "fashion",
          .environment_key = "e1",
          .state = RunState::training,
          .recipe = {{"autotuned", 1}, {"name", "fashion"}},
          .starting = configuration(0),
          .best = configuration(2),
          .baseline_samples_per_second = 1234.5,
          .best_samples_per_second = 2469.0,
          .speedup = {.ratio = 2.0, .low = 1.9, .high = 2.125, .pairs = 12},
          .ceiling_samples_per_second = 3000.25,
          .ceiling_bound_by = "compute",
          .ceiling_ladder =
              {{{"rung", "raw_bytes"}, {"samples_per_second", 2500.5}, {"reached_ratio", 0.98}},
               {{"rung", "device_batch"}, {"samples_per_second", 3000.25}, {"reached_ratio", 0.8}}},
          .started_unix_ns = 1'700'000'000'000'000'001,
          .ended_unix_ns = 1'700'000'060'000'000'002,
          .tuning_duration_ns = 59'000'000'003,
          .training = {{"steps", 100}, {"final_loss", 0.5}},
          .error = "none, \xC3\xA4 'quoted' \"text\"",
          .output_dir = "out/fashion",
          .is_retuned = true,
          .plan = "{\"seed\":1}"};
}

TrialRecord sample_trial(int number) {
  TrialRecord trial;
  trial.number = number;
  trial.kind = TrialKind::proposal;
  trial.plugin = "num_workers";
  trial.reference = configuration(0);
  trial.change.set("loader.workers", std::int64_t{2});
  trial.risk = "exact";
  trial.expected_gain_ratio = 1.3;
  trial.proposal_reason = "the step waits 31 % of its time for data";
  trial.verdict = Verdict::accepted;
  trial.failure = ErrorKind::out_of_memory;
  trial.reason = "faster by 20 %";
  trial.estimate = {.ratio = 1.2, .low = 1.1, .high = 1.3, .pairs = 7};
  trial.reference_samples_per_second = 1000.5;
  trial.candidate_samples_per_second = 1200.6;
  trial.rejection = RejectionReason::totals;
  trial.is_given_up = true;
  trial.total_ratio = 0.97;
  trial.process_pairs = 8;
  trial.noise_ratio = 0.015;
  trial.peak_memory_bytes = 5'000'000'000;
  trial.one_time_ns = 4'000'000'005;
  trial.started_unix_ns = 1'700'000'000'000'000'100 + number;
  trial.duration_ns = 3'000'000'004;
  return trial;
}

TrialBlock sample_block(int pair) {
  return {.pair = pair,
          .is_candidate = true,
          .is_first = true,
          .block = {.start_ns = 10,
                    .duration_ns = 101'234'567,
                    .steps = 12,
                    .samples = 384,
                    .first_loss = 2.3,
                    .last_loss = 2.1,
                    .losses = {2.3, 2.2, 2.1},
                    .data_wait_ns = 7,
                    .cpu_ns = 8,
                    .peak_host_memory_bytes = 9'000'000'000,
                    .peak_device_memory_bytes = 10'000'000'000},
          .process_pair = 3};
}

FindingRecord sample_finding(const std::string& id) {
  return {.id = id,
          .signal = "parts.data_loading_ratio",
          .value = 0.31,
          .threshold = 0.05,
          .is_below = false,
          .evidence = "31.0 % of the step is spent waiting",
          .plugin = "num_workers",
          .knob = "loader.workers",
          .advice = "raise num_workers",
          .severity = "high",
          .gain = "at most 31.0 % of the step",
          .code = "loader = DataLoader(data, num_workers=4)"};
}

std::string text_of(const RunRow& run) {
  const Json all = {
      {"id", run.id.text},
      {"recipe_hash", run.recipe_hash},
      {"recipe_name", run.recipe_name},
      {"environment_key", run.environment_key},
      {"state", to_string(run.state)},
      {"recipe", run.recipe},
      {"starting", run.starting.to_json()},
      {"best", run.best.to_json()},
      {"baseline", run.baseline_samples_per_second},
      {"best_rate", run.best_samples_per_second},
      {"speedup", {run.speedup.ratio, run.speedup.low, run.speedup.high, run.speedup.pairs}},
      {"ceiling", run.ceiling_samples_per_second},
      {"bound_by", run.ceiling_bound_by},
      {"ladder", run.ceiling_ladder},
      {"started", run.started_unix_ns},
      {"ended", run.ended_unix_ns},
      {"tuning", run.tuning_duration_ns},
      {"training", run.training},
      {"error", run.error},
      {"output_dir", run.output_dir},
      {"is_retuned", run.is_retuned},
      {"plan", run.plan},
      {"is_tune_only", run.is_tune_only}};
  return all.dump(1);
}

std::string text_of(const TrialBlock& block) {
  const Json all = {{"pair", block.pair},
                    {"is_candidate", block.is_candidate},
                    {"is_first", block.is_first},
                    {"block", block.block.to_json()}};
  return all.dump(1);
}

void must(const Result<void>& outcome) {
  if (!outcome) throw std::runtime_error(outcome.error().message());
}

History open_with_run(const fs::path& file, const std::string& id) {
  auto history = History::open(file, Access::read_write);
  if (!history) throw std::runtime_error(history.error().message());
  must(history->put_environment(sample_environment()));
  must(history->put_recipe(sample_recipe()));
  must(history->put_run(sample_run(id)));
  return *std::move(history);
}

void put_sample_run(History& history, const std::string& id, RunState state,
                    std::int64_t started_unix_ns, const std::string& recipe_hash,
                    const std::string& environment_key) {
  must(history.put_recipe(sample_recipe(recipe_hash)));
  must(history.put_environment(sample_environment(environment_key)));
  RunRow run = sample_run(id);
  run.state = state;
  run.started_unix_ns = started_unix_ns;
  run.recipe_hash = recipe_hash;
  run.recipe_name = "name-" + recipe_hash;
  run.environment_key = environment_key;
  must(history.put_run(run));
}

void run_sql(const fs::path& file, const std::string& sql) {
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql);
}

void bring_back_to_version_13(const fs::path& file) {
  run_sql(file,
          "ALTER TABLE plugin_answers DROP COLUMN kind; "
          "ALTER TABLE plugin_answers DROP COLUMN subject; "
          "ALTER TABLE trials DROP COLUMN is_given_up; PRAGMA user_version = 13");
}

int start_child(const std::function<int()>& work) {
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid > 0) return pid;
  int code = 99;
  try {
    code = work();
  } catch (const std::exception& exception) {
    static_cast<void>(std::fprintf(stderr, "child: %s\n", exception.what()));
  }
  ::_exit(code);
}

int wait_for(int pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) throw std::runtime_error("waitpid failed");
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::string as_ordinary_user(const fs::path& folder, const std::function<std::string()>& work) {
  if (::geteuid() == 0) {
    const auto give = [](const fs::path& path) {
      if (::lchown(path.c_str(), kNobody, kNobody) != 0) throw std::runtime_error("chown failed");
    };
    give(folder);
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      give(entry.path());
  }
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe failed");
  const int pid = start_child([&] {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 98;
    const std::string answer = work();
    return ::write(ends[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size())
               ? 0
               : 97;
  });
  ::close(ends[1]);
  std::string answer;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    answer.append(buffer.data(), static_cast<std::size_t>(n));
  ::close(ends[0]);
  const int code = wait_for(pid);
  return code == 0 ? answer : "the child ended with " + std::to_string(code);
}

}  // namespace autotuned::storage
