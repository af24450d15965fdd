// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/used_device.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

#include "recipes/knobs.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const std::vector<Gpu> kGpus = {{.uuid = "GPU-aa00", .name = "Slow"},
                                {.uuid = "GPU-aa11", .name = "Fast"},
                                {.uuid = "GPU-bb22", .name = "Other"}};

recipes::Recipe recipe_on(const std::string& device) {
  recipes::Recipe recipe;
  recipe.device = device;
  return recipe;
}

Machine machine_with(const std::vector<Gpu>& gpus) {
  Machine machine;
  machine.gpus = gpus;
  return machine;
}

class UsedDevice : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
  void TearDown() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
};

TEST_F(UsedDevice, GpusAreShownAsCudaShowsThem) {
  EXPECT_THAT(visible_gpus(kGpus, nullptr), ElementsAre("GPU-aa00", "GPU-aa11", "GPU-bb22"));
  EXPECT_THAT(visible_gpus(kGpus, ""), IsEmpty());
  EXPECT_THAT(visible_gpus(kGpus, "2,0"), ElementsAre("GPU-bb22", "GPU-aa00"));
  EXPECT_THAT(visible_gpus(kGpus, " 1 , 2 "), ElementsAre("GPU-aa11", "GPU-bb22"));
  EXPECT_THAT(visible_gpus(kGpus, "GPU-bb22,GPU-aa1"), ElementsAre("GPU-bb22", "GPU-aa11"));
  EXPECT_THAT(visible_gpus(kGpus, "MIG-1234-5678"), ElementsAre("MIG-1234-5678"));
  // What comes after one that is none is not shown.
  for (const char* visible :
       {"1,7,0", "1,-1,0", "1,x,0", "1,GPU-aa,0", "1,GPU-cc,0", "1,,0", "1,1,0"})
    EXPECT_THAT(visible_gpus(kGpus, visible), ElementsAre("GPU-aa11")) << visible;
}

TEST_F(UsedDevice, IsExpectedByTheRecipeAndTheEnvironment) {
  const Machine machine = machine_with(kGpus);
  EXPECT_EQ(device_of(recipe_on("cpu"), machine), "cpu");
  EXPECT_EQ(device_of(recipe_on("auto"), machine), "GPU-aa00");
  EXPECT_EQ(device_of(recipe_on("cuda:2"), machine), "GPU-bb22");
  EXPECT_EQ(device_of(recipe_on("cuda:3"), machine), "cpu");
  EXPECT_EQ(device_of(recipe_on("auto"), machine_with({})), "cpu");
  ::setenv("CUDA_VISIBLE_DEVICES", "2,1", 1);
  EXPECT_EQ(device_of(recipe_on("auto"), machine), "GPU-bb22");
  EXPECT_EQ(device_of(recipe_on("cuda:1"), machine), "GPU-aa11");
  EXPECT_EQ(device_of(recipe_on("cuda:2"), machine), "cpu");
}

TEST_F(UsedDevice, IsWhatTheTrainerTells) {
  const Machine machine = machine_with(kGpus);
  EXPECT_EQ(device_told({{"device", "cpu"}}, machine, "GPU-aa00"), "cpu");
  EXPECT_EQ(device_told({{"device", "cuda:0"}, {"device_uuid", "aa11"}}, machine, "GPU-aa00"),
            "GPU-aa11");
  // A part of a GPU, which NVML does not list among them.
  EXPECT_EQ(device_told({{"device", "cuda:0"}, {"device_uuid", "dd"}}, machine, "GPU-aa00"),
            "MIG-dd");
  // Trainers that do not tell.
  EXPECT_EQ(device_told({{"device", "cuda:0"}}, machine, "GPU-aa00"), "GPU-aa00");
  EXPECT_EQ(device_told({{"device", "cuda:0"}, {"device_uuid", ""}}, machine_with({}), "cpu"),
            "cuda:0");
  EXPECT_EQ(device_told(Json::object(), machine, "GPU-aa00"), "cpu");
}

TEST_F(UsedDevice, OfSeveralRanksAreAsManyGpus) {
  const Machine machine = machine_with(kGpus);
  recipes::Recipe recipe = recipe_on("auto");
  EXPECT_THAT(devices_of(recipe, machine), ElementsAre("GPU-aa00"));
  recipe.train.ranks = 2;
  EXPECT_THAT(devices_of(recipe, machine), ElementsAre("GPU-aa00", "GPU-aa11"));
  ::setenv("CUDA_VISIBLE_DEVICES", "2,1", 1);
  EXPECT_THAT(devices_of(recipe, machine), ElementsAre("GPU-bb22", "GPU-aa11"));
  recipe.train.ranks = 3;  // too few
  EXPECT_THAT(devices_of(recipe, machine), ElementsAre("GPU-bb22"));
  recipe.device = "cpu";
  EXPECT_THAT(devices_of(recipe, machine), ElementsAre("cpu"));

  const std::vector<std::string> expected = {"GPU-aa00", "GPU-aa11"};
  const Json facts = {
      {"device", "cuda:0"}, {"device_uuid", "bb22"}, {"device_uuids", {"bb22", ""}}};
  EXPECT_THAT(devices_told(facts, machine, expected), ElementsAre("GPU-bb22", "GPU-aa11"));
  EXPECT_THAT(devices_told({{"device", "cpu"}}, machine, expected), ElementsAre("cpu"));
  EXPECT_THAT(devices_told({{"device", "cuda:0"}, {"device_uuid", "aa11"}}, machine, {"cpu"}),
              ElementsAre("GPU-aa11"));
}

TEST_F(UsedDevice, AGpuThatIsNotUsedIsToldLoudly) {
  const Json hello = {{"cuda_reason", "no NVIDIA driver"}};
  const Json on_cpu = {{"device", "cpu"}};
  const auto findings =
      device_findings(recipe_on("auto"), hello, on_cpu, machine_with(kGpus), true);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].subject, "GPU");
  const std::string used_not = findings[0].text;
  // Where that is as wanted, or where there is none.
  EXPECT_THAT(device_findings(recipe_on("cpu"), hello, on_cpu, machine_with(kGpus), true),
              IsEmpty());
  EXPECT_THAT(device_findings(recipe_on("auto"), hello, on_cpu, machine_with({}), false),
              IsEmpty());
  // Without a driver nobody knows its name.
  const auto unnamed = device_findings(recipe_on("auto"), hello, on_cpu, machine_with({}), true);
  // One that only the trainer sees.
  Machine machine;
  machine.gpu_reason = "no NVIDIA driver (libnvidia-ml.so.1 is missing)";
  const Json on_gpu = {{"device", "cuda:0"}};
  const auto seen = device_findings(recipe_on("auto"), {}, on_gpu, machine, true);
  ASSERT_THAT(unnamed, SizeIs(1));
  ASSERT_THAT(seen, SizeIs(1));
  tests::expect_golden("daemon/common/golden/used_device.txt",
                       used_not + "\n" + unnamed[0].text + "\n" + seen[0].text + "\n");
  EXPECT_THAT(device_findings(recipe_on("auto"), {}, on_gpu, machine_with(kGpus), true), IsEmpty());
}

TEST_F(UsedDevice, AGpuIsThereAlsoWithoutADriverThatWorks) {
  const TemporaryFolder root;
  EXPECT_FALSE(is_gpu_there(Machine{}, root.path().string()));
  EXPECT_TRUE(is_gpu_there(machine_with(kGpus), root.path().string()));
  root.write("dev/nvidia0", "");
  EXPECT_TRUE(is_gpu_there(Machine{}, root.path().string()));
  const TemporaryFolder other;
  root.write("proc/driver/nvidia/version", "");
  EXPECT_FALSE(is_gpu_there(Machine{}, other.path().string()));
  other.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "");
  EXPECT_TRUE(is_gpu_there(Machine{}, other.path().string()));
}

}  // namespace
}  // namespace autotuned::daemon
