// SPDX-License-Identifier: Apache-2.0
#include "base/machine/nvml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class NvmlTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name :
         {"FAKE_NVML", "FAKE_NVML_LONG_NAME", "FAKE_NVML_MUCH_MEMORY", "FAKE_NVML_STATE"}) {
      ::unsetenv(name);
    }
  }
  static NvmlReport read(const std::string& script) {
    ::setenv("FAKE_NVML", script.c_str(), 1);
    return read_nvml(AUTOTUNED_FAKE_NVML);
  }
};

TEST_F(NvmlTest, DescribesEveryGpu) {
  const NvmlReport report = read("2");
  EXPECT_EQ(report.driver, "580.65.06");
  EXPECT_EQ(report.reason, "");
  ASSERT_THAT(report.gpus, SizeIs(2));
  EXPECT_EQ(report.gpus[1].uuid, "GPU-1");
  EXPECT_EQ(report.gpus[1].name, "Fake GPU 1");
  EXPECT_EQ(report.gpus[1].compute_capability_major, 9);
  EXPECT_EQ(report.gpus[1].compute_capability_minor, 0);
  EXPECT_EQ(report.gpus[1].memory_bytes, std::int64_t{80} << 30U);
}

TEST_F(NvmlTest, NoLibraryIsAReason) {
  const NvmlReport report = read_nvml("libautotuned-no-such-driver.so.1");
  EXPECT_EQ(report.reason, "no NVIDIA driver (libautotuned-no-such-driver.so.1 is missing)");
  EXPECT_THAT(report.gpus, IsEmpty());
  EXPECT_EQ(report.driver, "");
}

TEST_F(NvmlTest, ALibraryThatIsNoneIsAReason) {
  const TemporaryFolder folder;
  const auto file = folder.write("libnvidia-ml.so.1", "not a library");
  EXPECT_THAT(read_nvml(file.c_str()).reason, StartsWith("the NVIDIA driver cannot be loaded ("));
}

TEST_F(NvmlTest, AMissingFunctionIsAReason) {
  ::setenv("FAKE_NVML", "1", 1);
  const NvmlReport report = read_nvml(AUTOTUNED_FAKE_NVML_OLD);
  EXPECT_THAT(report.reason, HasSubstr("lacks nvmlDeviceGetUUID"));
  EXPECT_THAT(report.gpus, IsEmpty());
}

TEST_F(NvmlTest, NoGpuIsAReason) {
  const NvmlReport report = read("0");
  EXPECT_EQ(report.reason, "the NVIDIA driver lists no GPU");
  EXPECT_EQ(report.driver, "580.65.06");
}

TEST_F(NvmlTest, EveryFailingCallIsAReason) {
  for (const char* call :
       {"nvmlInit_v2", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
        "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability"}) {
    const NvmlReport report = read(std::string("1 ") + call + " 9");
    EXPECT_THAT(report.gpus, IsEmpty()) << call;
    EXPECT_THAT(report.reason, HasSubstr(std::string(call) + " failed: Driver Not Loaded"));
  }
  // A code for which the library has no text.
  EXPECT_THAT(read("1 nvmlInit_v2 77").reason, HasSubstr("nvmlInit_v2 failed: 77"));
}

TEST_F(NvmlTest, OneLostGpuDoesNotHideTheOthers) {
  const NvmlReport report = read("3 nvmlDeviceGetName 15 1");
  ASSERT_THAT(report.gpus, SizeIs(2));
  EXPECT_EQ(report.gpus[0].uuid, "GPU-0");
  EXPECT_EQ(report.gpus[1].uuid, "GPU-2");
  EXPECT_EQ(report.reason, "GPU 1 is left out (nvmlDeviceGetName failed: GPU is lost)");
}

TEST_F(NvmlTest, AGpuWithoutMemoryOfItsOwnIsKept) {
  const NvmlReport report = read("1 nvmlDeviceGetMemoryInfo 3");
  ASSERT_THAT(report.gpus, SizeIs(1));
  EXPECT_EQ(report.gpus[0].memory_bytes, 0);
}

TEST_F(NvmlTest, NonsenseIsSurvived) {
  ::setenv("FAKE_NVML_LONG_NAME", "1", 1);
  NvmlReport report = read("1");
  ASSERT_THAT(report.gpus, SizeIs(1));
  EXPECT_THAT(report.gpus[0].name, SizeIs(95));
  ::setenv("FAKE_NVML_MUCH_MEMORY", "1", 1);
  report = read("1");
  EXPECT_THAT(report.gpus, IsEmpty());
  EXPECT_THAT(report.reason, HasSubstr("its memory size is invalid"));
  ::unsetenv("FAKE_NVML_MUCH_MEMORY");
  EXPECT_THAT(read("4294967295").gpus, SizeIs(1024));
}

TEST_F(NvmlTest, TellsWhatDisturbsAGpu) {
  ::setenv("FAKE_NVML", "2", 1);
  ::setenv("FAKE_NVML_STATE", "3 c0 5000000000 7000000000", 1);
  const std::vector<GpuState> states = read_gpu_states(AUTOTUNED_FAKE_NVML);
  ASSERT_THAT(states, SizeIs(2));
  EXPECT_EQ(states[1].uuid, "GPU-1");
  EXPECT_EQ(states[1].name, "Fake GPU 1");
  EXPECT_EQ(states[1].memory_free_bytes, std::int64_t{79} << 30U);
  EXPECT_EQ(states[1].processes, 3);
  EXPECT_TRUE(states[1].is_hot);
  EXPECT_TRUE(states[1].is_held_by_power);
  EXPECT_EQ(states[1].slowed_by_power, std::chrono::seconds(5));
  EXPECT_EQ(states[1].slowed_by_heat, std::chrono::seconds(7));
  // Idle, or at the ordinary limit of its power: as any GPU is most of the time.
  ::setenv("FAKE_NVML_STATE", "0 5 0 0", 1);
  EXPECT_FALSE(read_gpu_states(AUTOTUNED_FAKE_NVML)[0].is_hot);
  EXPECT_FALSE(read_gpu_states(AUTOTUNED_FAKE_NVML)[0].is_held_by_power);
  ::setenv("FAKE_NVML_STATE", "1000 0 0 0", 1);
  EXPECT_EQ(read_gpu_states(AUTOTUNED_FAKE_NVML)[0].processes, 64);
}

TEST_F(NvmlTest, AnOlderDriverOrNoneTellsNothingThatDisturbs) {
  ::setenv("FAKE_NVML", "1 nvmlDeviceGetViolationStatus 3", 1);
  ::setenv("FAKE_NVML_STATE", "0 40 5 7", 1);
  ASSERT_THAT(read_gpu_states(AUTOTUNED_FAKE_NVML), SizeIs(1));
  // Not "never".
  EXPECT_EQ(read_gpu_states(AUTOTUNED_FAKE_NVML)[0].slowed_by_heat, std::nullopt);
  EXPECT_EQ(read_gpu_states(AUTOTUNED_FAKE_NVML)[0].slowed_by_power, std::nullopt);
  ASSERT_THAT(read_gpu_states(AUTOTUNED_FAKE_NVML_STATELESS), SizeIs(1));
  EXPECT_FALSE(read_gpu_states(AUTOTUNED_FAKE_NVML_STATELESS)[0].is_hot);
  EXPECT_THAT(read_gpu_states("libautotuned-no-such-driver.so.1"), IsEmpty());
}

}  // namespace
}  // namespace autotuned
