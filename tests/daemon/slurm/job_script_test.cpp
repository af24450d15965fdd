// SPDX-License-Identifier: Apache-2.0
// The script of a Slurm job: its text, and what a shell makes of it.
#include "daemon/slurm/job_script.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/process/process.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kLimit = 30s;

TEST(JobScript, OfOneRun) {
  tests::expect_golden("daemon/slurm/golden/one_run.txt",
                       script_text({.name = "fashion cnn",
                                    .ranks = 4,
                                    .program = "/opt/autotuned/bin/autotuned",
                                    .recipes = {"/data/me/recipe.yaml"},
                                    .run_options = {"--ranks", "4", "--set", "loader.workers=2"},
                                    .folder = "/data/me/autotuned-slurm",
                                    .known = "/data/me/autotuned-slurm/r-20261126-7f3a9c.known"}));
}

TEST(JobScript, OfAnArray) {
  tests::expect_golden("daemon/slurm/golden/array.txt",
                       script_text({.name = "2-recipes",
                                    .program = "/usr/bin/autotuned",
                                    .recipes = {"/data/me/a.yaml", "/data/me/it's b.yaml"},
                                    .folder = "/data/me/jobs"}));
}

TEST(JobScript, NamesItsFiles) {
  EXPECT_THAT(job_file_names("7", 1), ElementsAre("7"));
  EXPECT_THAT(job_file_names("7", 2), ElementsAre("7_0", "7_1"));
  EXPECT_EQ(log_pattern("/a/100%", 1), "/a/100%%/%j.log");
  EXPECT_EQ(log_pattern("/a", 2), "/a/%A_%a.log");
}

// Plays `autotuned`: tells of its words, keeps a history, and ends at the first SIGTERM, or with `stubborn` at the second.
constexpr const char* kProgram = R"sh(#!/bin/sh
here=$(dirname "$0")
if test "$1" = history; then
  test ! -e "$here/cannot-copy" || exit 1
  cp "$AUTOTUNED_HISTORY" "$3"
  exit 0
fi
left=1
test ! -e "$here/stubborn" || left=2
trap 'left=$((left - 1)); echo signal >> "$here/signals"' TERM
for word; do echo "$word"; done > "$here/words"
echo run >> "$AUTOTUNED_HISTORY"
echo "$AUTOTUNED_HISTORY" > "$here/place"
test ! -e "$here/waits" || while test "$left" -gt 0; do sleep 0.05; done
test "$left" -gt 0 && exit 3
exit 130
)sh";

class RunningScript : public ::testing::Test {
 protected:
  void SetUp() override {
    ::chmod(folder_.write("bin/autotuned", kProgram).c_str(), 0755);
    std::filesystem::create_directory(folder_ / "the jobs");
    std::filesystem::create_directory(folder_ / "tmp");
    job_ = {.name = "job",
            .program = folder_ / "bin/autotuned",
            .recipes = {folder_ / "a recipe.yaml"},
            .folder = folder_ / "the jobs"};
  }

  [[nodiscard]] Process start(const std::vector<std::string>& variables) const {
    folder_.write("job.sh", script_text(job_));
    ProcessSpec spec;
    spec.program = "/bin/sh";
    spec.arguments = {(folder_ / "job.sh").string()};
    spec.environment = variables;
    spec.environment.insert(spec.environment.end(),
                            {"PATH=/usr/bin:/bin", "TMPDIR=" + (folder_ / "tmp").string()});
    spec.log = folder_ / "job.log";
    return Process::start(spec).value();
  }
  // Its exit code.
  [[nodiscard]] int run(const std::vector<std::string>& variables = {"SLURM_JOB_ID=7"}) const {
    Process process = start(variables);
    const auto end = process.wait(kLimit);
    return end && end->signal == 0 ? end->code : -1;
  }
  void wait_for(const std::string& file) const {
    for (int i = 0; i < 600 && !std::filesystem::exists(folder_ / file); ++i)
      std::this_thread::sleep_for(50ms);
    ASSERT_TRUE(std::filesystem::exists(folder_ / file)) << folder_.read("job.log");
  }

  TemporaryFolder folder_;
  JobScript job_;
};

TEST_F(RunningScript, RunsTheRecipeAndBringsItsHistoryBack) {
  job_.run_options = {"--set", "env.X=it's $HOME"};
  EXPECT_EQ(run(), 3) << folder_.read("job.log");
  EXPECT_EQ(folder_.read("bin/words"), "run\n" + (folder_ / "a recipe.yaml").string() +
                                           "\n--no-daemon\n--set\nenv.X=it's $HOME\n");
  EXPECT_EQ(folder_.read("the jobs/7.db"), "run\n");
  EXPECT_THAT(folder_.read("bin/place"), HasSubstr((folder_ / "tmp/autotuned-").string()));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp")) << "nothing stays on the node";
}

TEST_F(RunningScript, BeginsWithWhatIsKnownAndGoesOnWithItsOwn) {
  job_.known = folder_.write("the jobs/known", "known\n");
  EXPECT_EQ(run(), 3);
  EXPECT_EQ(folder_.read("the jobs/7.db"), "known\nrun\n");
  EXPECT_EQ(run(), 3) << "Slurm starts it again";
  EXPECT_EQ(folder_.read("the jobs/7.db"), "known\nrun\nrun\n");
}

TEST_F(RunningScript, PicksTheRecipeOfItsTask) {
  job_.recipes = {folder_ / "a.yaml", folder_ / "b.yaml"};
  EXPECT_EQ(run({"SLURM_JOB_ID=9", "SLURM_ARRAY_JOB_ID=8", "SLURM_ARRAY_TASK_ID=1"}), 3);
  EXPECT_THAT(folder_.read("bin/words"), HasSubstr("b.yaml"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "the jobs/8_1.db"));
  EXPECT_EQ(run({"SLURM_JOB_ID=9", "SLURM_ARRAY_JOB_ID=8", "SLURM_ARRAY_TASK_ID=2"}), 2);
}

// Slurm signals the shell alone; the history comes back all the same.
TEST_F(RunningScript, PassesTheSignalOn) {
  folder_.write("bin/waits", "");
  Process process = start({"SLURM_JOB_ID=7"});
  wait_for("bin/place");
  ::kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait(kLimit)->code, 130) << folder_.read("job.log");
  EXPECT_EQ(folder_.read("bin/signals"), "signal\n");
  EXPECT_EQ(folder_.read("the jobs/7.db"), "run\n");
}

TEST_F(RunningScript, PassesTheSecondSignalOnToo) {
  folder_.write("bin/waits", "");
  folder_.write("bin/stubborn", "");
  Process process = start({"SLURM_JOB_ID=7"});
  wait_for("bin/place");
  ::kill(process.pid(), SIGTERM);
  wait_for("bin/signals");
  EXPECT_FALSE(process.wait(300ms));
  ::kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait(kLimit)->code, 130) << folder_.read("job.log");
}

TEST_F(RunningScript, SaysWhereTheHistoryStaysThatCannotBeCopied) {
  folder_.write("bin/cannot-copy", "");
  EXPECT_EQ(run(), 3);
  EXPECT_THAT(folder_.read("job.log"), HasSubstr("it stays in " + (folder_ / "tmp").string()));
  EXPECT_FALSE(std::filesystem::is_empty(folder_ / "tmp"));
}

}  // namespace
}  // namespace autotuned::daemon
