// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/launched.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <future>
#include <map>
#include <optional>
#include <string>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<LauncherRank>> place_in(const Variables& variables) {
  return launcher_rank_from([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found != variables.end() ? found->second.c_str() : nullptr;
  });
}

std::string error_in(const Variables& variables) {
  const auto place = place_in(variables);
  return place ? "" : place.error().message();
}

TEST(Launched, KnowsTorchrunAndSrun) {
  const auto torchrun = place_in({{"RANK", "1"},
                                  {"WORLD_SIZE", "4"},
                                  {"LOCAL_WORLD_SIZE", "4"},
                                  {"TORCHELASTIC_RESTART_COUNT", "2"},
                                  {"SLURM_PROCID", "0"},
                                  {"SLURM_STEP_NUM_TASKS", "1"}});
  ASSERT_TRUE(torchrun && *torchrun);
  EXPECT_EQ((*torchrun)->launcher, "torchrun");
  EXPECT_EQ((*torchrun)->rank, 1);
  EXPECT_EQ((*torchrun)->ranks, 4);
  EXPECT_EQ((*torchrun)->round, "2");
  const auto srun = place_in(
      {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_NUM_NODES", "1"}});
  ASSERT_TRUE(srun && *srun);
  EXPECT_EQ((*srun)->launcher, "srun");
  EXPECT_EQ((*srun)->rank, 2);
  EXPECT_EQ((*srun)->ranks, 3);
}

// Scripts of Slurm jobs often set the variables of PyTorch from those of srun.
TEST(Launched, KnowsSrunWhereAScriptHasSetTheVariablesOfPyTorch) {
  Variables variables = {{"SLURM_PROCID", "2"},
                         {"SLURM_STEP_NUM_TASKS", "3"},
                         {"RANK", "2"},
                         {"WORLD_SIZE", "3"},
                         {"MASTER_ADDR", "first"}};
  const auto srun = place_in(variables);
  ASSERT_TRUE(srun && *srun) << error_in(variables);
  EXPECT_EQ((*srun)->launcher, "srun");
  EXPECT_EQ((*srun)->rank, 2);
  EXPECT_EQ((*srun)->ranks, 3);
  // A step of one task, such as an interactive one, has not started the others.
  variables["SLURM_PROCID"] = "0";
  variables["SLURM_STEP_NUM_TASKS"] = "1";
  const auto others = place_in(variables);
  ASSERT_FALSE(others);
  EXPECT_EQ(others.error().kind, ErrorKind::unsupported);
}

// The script of a batch job runs once, whatever the job has room for.
TEST(Launched, IsNothingForASingleProcess) {
  for (const Variables& alone :
       {Variables{}, Variables{{"RANK", "0"}, {"WORLD_SIZE", "4"}},
        Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "x"}},
        Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}},
        Variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}}) {
    const auto place = place_in(alone);
    ASSERT_TRUE(place);
    EXPECT_FALSE(place->has_value());
  }
}

TEST(Launched, RefusesSeveralMachinesAndWhatIsWrong) {
  tests::Cases cases;
  const auto refuse = [&cases](const Variables& variables) {
    std::string given;
    for (const auto& [name, value] : variables)
      given += (given.empty() ? "" : " ") + name + "=" + value;
    cases.add(given, error_in(variables));
  };
  refuse({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}});
  refuse({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NUM_NODES", "2"}});
  // As Kubernetes starts one process on each machine.
  refuse({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "first"}, {"MASTER_PORT", "29500"}});
  refuse({{"RANK", "one"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}});
  refuse({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}});
  tests::expect_golden("daemon/supervisor/golden/launched.txt", cases.text());
}

TEST(Launched, AllEndAsTheFirstOne) {
  const TemporaryFolder folder;
  const LauncherRank place{.launcher = "torchrun", .rank = 0, .ranks = 3, .round = "0"};
  const auto file = meeting_file(folder.path(), place);
  EXPECT_NE(file, meeting_file(folder.path(), {.launcher = "torchrun", .ranks = 3, .round = "1"}));
  const auto wait = [&file] { return wait_for_lead(file); };
  auto early = std::async(std::launch::async, wait);
  auto lead = LaunchedLead::begin(file);
  ASSERT_TRUE(lead) << lead.error().message();
  auto later = std::async(std::launch::async, wait);
  lead->end(3);
  EXPECT_EQ(early.get().value_or(-1), 3);
  EXPECT_EQ(later.get().value_or(-1), 3);
  EXPECT_EQ(wait().value_or(-1), 3) << "also one that comes late";
}

TEST(Launched, TellWhenTheFirstOneIsGoneOrNeverCame) {
  const TemporaryFolder folder;
  const auto file = meeting_file(folder.path(), {.launcher = "srun", .ranks = 2, .round = "0"});
  const auto never = wait_for_lead(file, std::chrono::milliseconds(1));
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().kind, ErrorKind::timeout);
  EXPECT_TRUE(LaunchedLead::begin(file));  // and it is gone
  const auto gone = wait_for_lead(file);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().kind, ErrorKind::crashed);
}

TEST(Launched, RemovesTheFilesOfLaunchersThatHaveEnded) {
  const TemporaryFolder folder;
  // More than any process number.
  const auto old = folder.write("launched-4194999-17-0", "0\n");
  const auto other = folder.write("launch.log", "");
  const auto file = meeting_file(folder.path(), {.launcher = "srun", .ranks = 2, .round = "0"});
  EXPECT_TRUE(LaunchedLead::begin(file));
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_TRUE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace autotuned::daemon
