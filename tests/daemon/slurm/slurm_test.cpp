// SPDX-License-Identifier: Apache-2.0
// What Slurm's commands are asked, and what is made of their answers. Scripts play them.
#include "daemon/slurm/slurm.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "daemon/slurm/job_script.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned::daemon {
namespace {

using ::testing::HasSubstr;

TEST(SlurmNames, AreToldFromThoseOfTheDaemon) {
  for (const char* name : {"slurm", "slurm:7", "slurm:x"})
    EXPECT_TRUE(is_slurm_name(name)) << name;
  for (const char* name : {"", "7", "last", "slurmy", "r-20261126-7f3a9c"})
    EXPECT_FALSE(is_slurm_name(name)) << name;
  EXPECT_EQ(slurm_number_of("slurm:7").value(), "7");
  EXPECT_EQ(slurm_number_of("slurm:71_20").value(), "71_20");
  for (const char* name : {"slurm", "slurm:", "slurm:x", "slurm:7_", "slurm:_7", "slurm:7;ls",
                           "slurm:7_1_2", "slurm:--state=PENDING", "slurm:7,8"}) {
    const auto number = slurm_number_of(name);
    ASSERT_FALSE(number) << name;
    EXPECT_EQ(number.error().kind, ErrorKind::invalid);
  }
}

TEST(SlurmOptions, TellHowManyNodesTheyAskFor) {
  EXPECT_EQ(nodes_asked_for({}), "");
  EXPECT_EQ(nodes_asked_for({"--nodelist", "n2", "--nice", "--exclusive"}), "");
  EXPECT_EQ(nodes_asked_for({"--partition", "gpu", "--nodes", "2"}), "2");
  EXPECT_EQ(nodes_asked_for({"--nodes=1-4"}), "1-4");
  EXPECT_EQ(nodes_asked_for({"-N", "2", "-N1"}), "1") << "the last one counts";
  EXPECT_EQ(nodes_asked_for({"--nodes"}), "") << "which sbatch refuses itself";
}

TEST(SlurmJobs, OfAnAnswerOfSqueue) {
  const auto jobs = jobs_of_squeue(
      "7|RUNNING|n1|1:02|autotuned|None|small\n"
      "8_1|PENDING||0:00|autotuned|Resources|a|b\n"
      "9|RUNNING|n2|1:00|(null)|None|of another program\n"
      "no row\n",
      kSlurmComment);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].to_json(), (Json{{"id", "slurm:7"},
                                     {"state", "running"},
                                     {"job", "small"},
                                     {"nodes", "n1"},
                                     {"elapsed", "1:02"},
                                     {"reason", ""}}));
  EXPECT_FALSE(jobs[0].has_ended());
  EXPECT_EQ(jobs[1].number, "8_1");
  EXPECT_EQ(jobs[1].name, "a|b");
  EXPECT_EQ(jobs[1].reason, "Resources");
  EXPECT_EQ(jobs_of_squeue("9|FAILED|n2|1:00|(null)|NonZeroExitCode|x\n").size(), 1U);
}

TEST(SlurmJobs, OfAnAnswerOfSacct) {
  const auto jobs = jobs_of_sacct("7|CANCELLED by 1000|n1|00:01:02|small\n");
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].state, "cancelled");
  EXPECT_TRUE(jobs[0].has_ended());
}

// Commands that note their words and answer from files.
class SlurmCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"sbatch", "squeue", "scancel", "sacct"}) {
      const std::string path = folder_.path().string() + "/" + name;
      ::chmod(folder_
                  .write(name,
                         "#!/bin/sh\n"
                         "echo \"" +
                             std::string(name) + " $*\" >> '" + folder_.path().string() +
                             "/asked'\n"
                             "test ! -f '" +
                             path + ".out' || cat '" + path +
                             ".out'\n"
                             "test ! -f '" +
                             path + ".err' || { cat '" + path + ".err' >&2; exit 1; }\n")
                  .c_str(),
              0755);
    }
    path_.emplace("PATH", (folder_.path().string() + ":/usr/bin:/bin").c_str());
  }
  [[nodiscard]] std::string asked() const { return folder_.read("asked"); }

  TemporaryFolder folder_;
  std::optional<EnvironmentVariable> path_;
};

TEST_F(SlurmCommands, SubmitsAndLearnsTheNumber) {
  folder_.write("sbatch.out", "7;cluster\n");
  const auto number = submit_script("/jobs/it.sh", {"--output=/jobs/%j.log", "--time", "1:00"});
  ASSERT_TRUE(number) << number.error().message();
  EXPECT_EQ(*number, "7");
  EXPECT_EQ(asked(), "sbatch --parsable --output=/jobs/%j.log --time 1:00 /jobs/it.sh\n");
  folder_.write("sbatch.out", "welcome to the cluster\n");
  EXPECT_EQ(submit_script("/jobs/it.sh", {}).error().kind, ErrorKind::io);
}

TEST_F(SlurmCommands, SaysWhatSlurmSaid) {
  folder_.write("sbatch.err",
                "sbatch: error: invalid partition specified: gpu\n"
                "sbatch: error: Batch job submission failed: Invalid partition name specified\n");
  const auto refused = submit_script("/jobs/it.sh", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_THAT(refused.error().message(), HasSubstr("Invalid partition name specified"));
}

TEST_F(SlurmCommands, ThatAreMissingAreNamed) {
  path_.emplace("PATH", "/nowhere");
  const auto refused = slurm_jobs();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(refused.error().message(), HasSubstr("squeue"));
  EXPECT_THAT(refused.error().remedy, HasSubstr("slurm-client"));
}

TEST_F(SlurmCommands, ListJobsOfThisUser) {
  folder_.write("squeue.out",
                "7|RUNNING|n1|1:02|autotuned|None|small\n9|RUNNING|n2|1:00|(null)|None|x\n");
  EXPECT_EQ(slurm_jobs().value().size(), 1U);
  EXPECT_THAT(asked(), HasSubstr("--user=" + std::to_string(::getuid())));
  folder_.write("squeue.err", "slurm_load_jobs error: Unable to contact slurm controller\n");
  EXPECT_THAT(slurm_jobs().error().message(), HasSubstr("Unable to contact"));
}

// squeue forgets early; a cluster may have an accounting, or not.
TEST_F(SlurmCommands, AskTheAccountingForWhatIsOver) {
  folder_.write("squeue.err", "slurm_load_jobs error: Invalid job id specified\n");
  folder_.write("sacct.out", "7|COMPLETED|n1|00:01:02|small\n");
  const auto jobs = slurm_jobs("7");
  ASSERT_TRUE(jobs) << jobs.error().message();
  EXPECT_EQ(jobs->at(0).state, "completed");
  folder_.write("sacct.err", "Slurm accounting storage is disabled\n");
  const auto unknown = slurm_jobs("7");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::not_found);
}

TEST_F(SlurmCommands, CancelWhatWaitsAndAskWhatRuns) {
  folder_.write("squeue.out",
                "7_0|RUNNING|n1|1:02|autotuned|None|x\n7_1|PENDING||0:00|autotuned|Priority|x\n");
  const auto cancelled = cancel_slurm_job("7");
  ASSERT_TRUE(cancelled) << cancelled.error().message();
  EXPECT_THAT(asked(), HasSubstr("scancel --state=PENDING 7\n"
                                 "scancel --state=RUNNING --batch --signal=TERM 7\n"));
  folder_.write("squeue.out", "7_0|COMPLETED|n1|1:02|autotuned|None|x\n");
  const auto over = cancel_slurm_job("7");
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().kind, ErrorKind::invalid);
  EXPECT_THAT(over.error().message(), HasSubstr("completed"));
}

}  // namespace
}  // namespace autotuned::daemon
