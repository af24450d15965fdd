// SPDX-License-Identifier: Apache-2.0
#include "base/machine/cuda_devices.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>

namespace autotuned {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CudaDevicesTest : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("FAKE_CUDA"); }
  static std::vector<std::string> read(const char* script) {
    void* const driver = ::dlopen(AUTOTUNED_FAKE_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(driver, nullptr);
    ::setenv("FAKE_CUDA", script, 1);
    return driver != nullptr ? read_cuda_uuids(driver) : std::vector<std::string>();
  }
};

TEST_F(CudaDevicesTest, TellsWhoEachDeviceIs) {
  EXPECT_THAT(read("2"), ElementsAre("00010203-0405-0607-0809-0a0b0c0d0ea0",
                                     "00010203-0405-0607-0809-0a0b0c0d0ea1"));
  EXPECT_THAT(read("0"), IsEmpty());
}

TEST_F(CudaDevicesTest, SurvivesADriverThatFails) {
  EXPECT_THAT(read("2 cuInit"), IsEmpty());
  EXPECT_THAT(read("2 cuDeviceGetCount"), IsEmpty());
  EXPECT_THAT(read("-5"), IsEmpty());
  // Which there are is known, who they are is not.
  EXPECT_THAT(read("2 cuDeviceGet"), ElementsAre("", ""));
  EXPECT_THAT(read("1 cuDeviceGetUuid_v2"), ElementsAre(""));
}

TEST_F(CudaDevicesTest, TellsTheVersionOfTheDriver) {
  void* const driver = ::dlopen(AUTOTUNED_FAKE_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr);
  EXPECT_EQ(read_cuda_version(driver), 12040);
  ::setenv("FAKE_CUDA", "1 cuDriverGetVersion", 1);
  EXPECT_EQ(read_cuda_version(driver), 0);
}

TEST_F(CudaDevicesTest, SurvivesALibraryThatIsNoDriver) {
  void* const library = ::dlopen("libc.so.6", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  EXPECT_THAT(read_cuda_uuids(library), IsEmpty());
  EXPECT_EQ(read_cuda_version(library), 0);
}

}  // namespace
}  // namespace autotuned
