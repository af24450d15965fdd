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

// What a sequel has found so far lies beside the best model of the run before it.
TEST(RunFiles, OfASequelThatGoesOnHaveItsBestModel) {
  const TemporaryFolder folder;
  storage::RunRow run = sample_record().run;
  run.output_dir = folder.path().string();
  run.state = storage::RunState::training;
  folder.write("summary.json", R"({"run": "r-before"})");
  folder.write("model_best.pt", "weights");
  folder.write("model_best-" + run.id.text + ".pt", "weights");
  EXPECT_THAT(files_text(run), AllOf(HasSubstr("the weights at the best evaluation so far"),
                                     Not(HasSubstr("model_best.pt"))));
}

TEST(RunFiles, OfAScriptAreItsOwn) {
  storage::RunRow run = sample_record().run;
  run.recipe = {{"kind", "script"}, {"name", "train.py"}};
  EXPECT_THAT(files_text(run), HasSubstr("what it printed went to its terminal"));
}

}  // namespace
}  // namespace autotuned::daemon
