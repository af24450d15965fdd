// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/cupti_occupancy.hpp"

#include <gmock/gmock.h>

#include <climits>
#include <cmath>

#include "profiler/recorder/cupti_devices.hpp"
#include "tests/profiler/recorder/device_samples.hpp"

namespace autotuned::profiler {
namespace {

using testing::HasSubstr;

DeviceKernel kernel_of(std::int32_t blocks, std::int32_t threads, std::uint16_t registers) {
  DeviceKernel kernel;
  kernel.grid = {blocks, 1, 1};
  kernel.block = {threads, 1, 1};
  kernel.registers_per_thread = registers;
  return kernel;
}

DeviceKernel estimated(const DeviceKernel& kernel, const RecordedDevice& device = sample_h100()) {
  DeviceTimeline timeline;
  timeline.kernels = {kernel};
  estimate_occupancy(timeline, {device});
  return timeline.kernels[0];
}

TEST(CuptiOccupancy, CountsBlocksAndWarpsOfTheLaunch) {
  const DeviceKernel kernel = estimated(kernel_of(66, 256, 32));
  EXPECT_FLOAT_EQ(kernel.blocks_per_sm, 0.5F);
  EXPECT_FLOAT_EQ(kernel.warps_per_sm, 4.0F);        // half a block of 8 warps
  EXPECT_FLOAT_EQ(kernel.occupancy_percent, 6.25F);  // 128 of 2,048 threads
}

TEST(CuptiOccupancy, IsLimitedByThreadsRegistersAndSharedMemory) {
  // Eight blocks of 256 threads fill a multiprocessor.
  EXPECT_FLOAT_EQ(estimated(kernel_of(100'000, 256, 32)).occupancy_percent, 100.0F);
  // 256 threads of 128 registers take half of them: two blocks.
  EXPECT_FLOAT_EQ(estimated(kernel_of(100'000, 256, 128)).occupancy_percent, 25.0F);
  // 40,000 bytes of shared memory, and 1,024 reserved: five blocks of 128 threads.
  DeviceKernel shared = kernel_of(100'000, 128, 32);
  shared.static_shared_bytes = 40'000;
  EXPECT_FLOAT_EQ(estimated(shared).occupancy_percent, 31.25F);
}

TEST(CuptiOccupancy, KnowsLargeDynamicSharedMemory) {
  // One block of 384 threads, as matrix products on Hopper are.
  DeviceKernel kernel = kernel_of(132, 384, 168);
  kernel.dynamic_shared_bytes = 200'000;
  kernel.opts_in_shared = true;
  EXPECT_FLOAT_EQ(estimated(kernel).occupancy_percent, 18.75F);
  // More than a block may have by default, and it did not ask for more: such a kernel cannot run.
  kernel.opts_in_shared = false;
  EXPECT_TRUE(std::isnan(estimated(kernel).occupancy_percent));
}

TEST(CuptiOccupancy, SurvivesShapesThatCannotBe) {
  for (const std::int32_t size : {0, -1, INT_MAX, INT_MIN}) {
    const DeviceKernel kernel = estimated(kernel_of(size, size, 65'535));
    EXPECT_TRUE(std::isnan(kernel.occupancy_percent)) << size;
    EXPECT_GE(kernel.blocks_per_sm, 0.0F);
  }
  DeviceKernel huge = kernel_of(INT_MAX, 256, 32);
  huge.grid = {INT_MAX, INT_MAX, INT_MAX};
  EXPECT_GT(estimated(huge).blocks_per_sm, 1e25F);
  EXPECT_FLOAT_EQ(estimated(huge).occupancy_percent, 100.0F);
}

TEST(CuptiOccupancy, SaysNothingOfDevicesThatItDoesNotKnow) {
  DeviceKernel elsewhere = kernel_of(1, 32, 16);
  elsewhere.device = 3;
  EXPECT_TRUE(std::isnan(estimated(elsewhere).blocks_per_sm));
  // A driver that tells nothing.
  EXPECT_TRUE(std::isnan(estimated(kernel_of(1, 32, 16), {.id = 0}).blocks_per_sm));
  // The calculation does not know this generation of GPUs.
  RecordedDevice future = sample_h100();
  future.compute_major = 99;
  EXPECT_TRUE(std::isnan(estimated(kernel_of(1, 32, 16), future).occupancy_percent));
  EXPECT_FALSE(std::isnan(estimated(kernel_of(1, 32, 16), future).blocks_per_sm));
}

TEST(CuptiDevices, SaysWhyThereAreNone) {
  const auto missing = read_cuda_devices("libautotuned-no-such-driver.so.1");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message(), "no NVIDIA driver");
  const auto other = read_cuda_devices("libz.so.1");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("the driver lacks cuInit"));
}

TEST(CuptiDevices, DescribesWhatTheDriverHas) {
  const auto devices = read_cuda_devices(AUTOTUNED_FAKE_CUDA);
  ASSERT_TRUE(devices) << devices.error().message();
  ASSERT_EQ(devices->size(), 2U);
  const RecordedDevice& device = (*devices)[1];
  EXPECT_EQ(device.id, 1);
  EXPECT_EQ(device.name, "Fake GPU \"1\"");
  EXPECT_EQ(device.memory_bytes, std::int64_t{80} << 30);
  EXPECT_EQ(device.compute_major, 9);
  EXPECT_EQ(device.multiprocessors, 132);
  EXPECT_EQ(device.max_threads_per_multiprocessor, 2'048);
  EXPECT_EQ(device.reserved_shared_bytes_per_block, 0);  // this driver does not know it
}

}  // namespace
}  // namespace autotuned::profiler
