// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/run_files.hpp"

#include <gmock/gmock.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/report/record_sample.hpp"

namespace autotuned::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(RunFiles, ATrainerThatSaidNothingHasNoLog) {
  const TemporaryFolder folder;
  folder.write("log/trainer-1.log", "");
  folder.write("log/trainer-2.log", "out of memory\n");
  storage::RunRow run = sample_record().run;
  run.output_dir = folder.path().string();
  EXPECT_THAT(files_text(run), AllOf(HasSubstr("trainer-2.log"), Not(HasSubstr("trainer-1.log"))));
}

// Which left a checkpoint, and whose logs the other run has replaced.
TEST(RunFiles, OfAStoppedRunAreNotThoseOfALaterOne) {
  const TemporaryFolder folder;
  storage::RunRow run = sample_record().run;
  run.output_dir = folder.path().string();
  run.state = storage::RunState::cancelled;
  run.started_unix_ns = 1000;
  folder.write("checkpoint-" + run.id.text + ".pt", "state");
  folder.write("log/training.jsonl", "{}\n");
  folder.write("log/trainer-1.log", "out of memory\n");
  folder.write("summary.json", R"({"run": "r-later", "ended_unix_ns": 2000})");
  const auto own = AllOf(HasSubstr("checkpoint-"), HasSubstr("training.jsonl"),
                         HasSubstr("trainer-1.log"), Not(HasSubstr("r-later")));
  const auto of_other =
      AllOf(HasSubstr("checkpoint-"), Not(HasSubstr("training.jsonl")),
            Not(HasSubstr("trainer-1.log")), HasSubstr("has those of a later run, r-later"));
  EXPECT_THAT(files_text(run), of_other);
  run.started_unix_ns = 3000;
  EXPECT_THAT(files_text(run), own) << "the other one was before it";
  run.started_unix_ns = 1000;
  run.state = storage::RunState::training;
  EXPECT_THAT(files_text(run), own) << "it goes on at this moment";
  run.is_interrupted = true;
  EXPECT_THAT(files_text(run), of_other);
}

TEST(RunFiles, HaveTheStateAndTheWeightsOnTheWay) {
  const TemporaryFolder folder;
  storage::RunRow run = sample_record().run;
  run.output_dir = folder.path().string();
  run.state = storage::RunState::finished;
  folder.write("summary.json", "{\"run\": \"" + run.id.text + "\"}");
  folder.write("model.pt", "weights");
  folder.write("training_state.pt", "weights and moments");
  folder.write("weights-" + run.id.text + "/model_step_500.pt", "weights");
  folder.write("weights-" + run.id.text + "/model_epoch_2.pt", "weights");
  folder.write("weights-r-other/model_step_7.pt", "weights");
  EXPECT_THAT(files_text(run),
              AllOf(HasSubstr("the state at the end, from which `run --extend` goes on"),
                    HasSubstr("weights at the end of an epoch"),
                    HasSubstr("weights after so many steps"), Not(HasSubstr("r-other"))));
}

// What a training has found so far lies beside the best model of the run before it.
TEST(RunFiles, OfATrainingThatGoesOnHaveItsBestModel) {
  const TemporaryFolder folder;
  storage::RunRow run = sample_record().run;
  run.output_dir = folder.path().string();
  run.state = storage::RunState::training;
  folder.write("summary.json", R"({"run": "r-before"})");
  folder.write("model_best.pt", "weights");
  folder.write("model_best-" + run.id.text + ".pt", "weights");
  folder.write("model_best-" + run.id.text + "_ema.pt", "weights");
  const auto own = AllOf(HasSubstr("the weights at the best evaluation so far"),
                         HasSubstr("_ema.pt"), Not(HasSubstr("model_best.pt")));
  EXPECT_THAT(files_text(run), own);
  run.state = storage::RunState::cancelled;
  run.started_unix_ns = 1000;
  folder.write("summary.json", R"({"run": "r-later", "ended_unix_ns": 2000})");
  EXPECT_THAT(files_text(run), own) << "stopped, and another one has ended there since";
}

TEST(RunFiles, OfAScriptAreItsOwn) {
  storage::RunRow run = sample_record().run;
  run.recipe = {{"kind", "script"}, {"name", "train.py"}};
  EXPECT_THAT(files_text(run), HasSubstr("what it printed went to its terminal"));
}

}  // namespace
}  // namespace autotuned::daemon
