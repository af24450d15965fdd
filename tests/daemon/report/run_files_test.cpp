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

TEST(RunFiles, OfAScriptAreItsOwn) {
  storage::RunRow run = sample_record().run;
  run.recipe = {{"kind", "script"}, {"name", "train.py"}};
  EXPECT_THAT(files_text(run), HasSubstr("what it printed went to its terminal"));
}

}  // namespace
}  // namespace autotuned::daemon
