// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/run_files.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/report/record_sample.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

storage::RunRow run_in(const TemporaryFolder& folder, storage::RunState state) {
  storage::RunRow run = sample_record().run;
  run.output_dir = folder.path().string();
  run.state = state;
  run.started_unix_ns = 1000;
  return run;
}

// The columns are as wide as the path of the folder.
std::string listed(const storage::RunRow& run) {
  return "\n" + std::regex_replace(files_text(run), std::regex(" {2,}"), "  ");
}

// A later run left its summary in the folder of one that was stopped.
void write_summary_of_later_run(const TemporaryFolder& folder) {
  folder.write("summary.json", R"({"run": "r-later", "ended_unix_ns": 2000})");
}

std::string files_of_stopped_run() {
  const TemporaryFolder folder;
  storage::RunRow run = run_in(folder, storage::RunState::cancelled);
  folder.write("checkpoint-" + run.id.text + ".pt", "state");
  folder.write("log/training.jsonl", "{}\n");
  folder.write("log/trainer-1.log", "out of memory\n");
  folder.write("log/trainer-2.log", "");
  write_summary_of_later_run(folder);
  tests::Cases cases(folder.path());
  cases.add("a stopped run, whose logs a later one has replaced", listed(run));
  run.started_unix_ns = 3000;
  cases.add("the other run was before it; a trainer that said nothing has no log", listed(run));
  run.started_unix_ns = 1000;
  run.state = storage::RunState::training;
  cases.add("it goes on at this moment", listed(run));
  run.is_interrupted = true;
  cases.add("it goes on, and its session has ended", listed(run));
  return cases.text();
}

std::string files_of_finished_run() {
  const TemporaryFolder folder;
  const storage::RunRow run = run_in(folder, storage::RunState::finished);
  folder.write("summary.json", "{\"run\": \"" + run.id.text + "\"}");
  folder.write("model.pt", "weights");
  folder.write("training_state.pt", "weights and moments");
  folder.write("weights-" + run.id.text + "/model_step_500.pt", "weights");
  folder.write("weights-" + run.id.text + "/model_epoch_2.pt", "weights");
  folder.write("weights-r-other/model_step_7.pt", "weights");
  tests::Cases cases(folder.path());
  cases.add("the state, and weights on the way", listed(run));
  return cases.text();
}

// What a training has found so far lies beside the best model of the run before it.
std::string files_with_best_model() {
  const TemporaryFolder folder;
  storage::RunRow run = run_in(folder, storage::RunState::training);
  folder.write("summary.json", R"({"run": "r-before"})");
  folder.write("model_best.pt", "weights");
  folder.write("model_best-" + run.id.text + ".pt", "weights");
  folder.write("model_best-" + run.id.text + "_ema.pt", "weights");
  tests::Cases cases(folder.path());
  cases.add("a training that goes on has its best model", listed(run));
  run.state = storage::RunState::cancelled;
  write_summary_of_later_run(folder);
  cases.add("it was stopped, and another one has ended there since", listed(run));
  return cases.text();
}

TEST(RunFiles, AreListedWithWhatTheyAre) {
  storage::RunRow script = sample_record().run;
  script.recipe = {{"kind", "script"}, {"name", "train.py"}};
  tests::expect_golden("daemon/report/golden/run_files.txt",
                       files_of_stopped_run() + files_of_finished_run() + files_with_best_model() +
                           "a script\n" + files_text(script));
}

}  // namespace
}  // namespace autotuned::daemon
