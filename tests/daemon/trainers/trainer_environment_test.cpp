// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_environment.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>

#include "base/machine/allocator_library.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned::daemon {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Configuration with(const std::string& knob, const std::string& value) {
  Configuration configuration;
  configuration.set(knob, value);
  return configuration;
}

TEST(TrainerEnvironment, HoldsTheVariablesOfTheConfiguration) {
  const auto plain = trainer_environment(Configuration{});
  ASSERT_TRUE(plain);
  EXPECT_THAT(*plain, Contains("OMP_WAIT_POLICY=passive"));
  EXPECT_THAT(*plain, Not(Contains(StartsWith("LD_PRELOAD"))));
  const auto active = trainer_environment(with("env.OMP_WAIT_POLICY", "active"));
  ASSERT_TRUE(active);
  EXPECT_THAT(*active, Contains("OMP_WAIT_POLICY=active"));
  EXPECT_THAT(*active, Not(Contains("OMP_WAIT_POLICY=passive")));
  const auto unset = trainer_environment(with("env.HOME", ""));
  ASSERT_TRUE(unset);
  EXPECT_THAT(*unset, Not(Contains(StartsWith("HOME="))));
}

// A container gives the driver in LD_LIBRARY_PATH alone, beside toolkits that must stay out.
TEST(TrainerEnvironment, FindsTheDriverWhereContainersPutIt) {
  const TemporaryFolder folder;
  for (const char* file : {"driver/libcuda.so.1", "driver/libnvidia-ml.so.1",
                           "toolkit/libcuda.so.1", "toolkit/libcudart.so.13", "system/libcuda.so.1",
                           "system/libstdc++.so.6", "others/libz.so", "fixed/libcuda.so.1"}) {
    folder.write(file, "");
  }
  const auto at = [&](const char* name) { return (folder / name).string(); };
  const std::string own = at("toolkit") + ":" + at("driver") + "::" + at("others") + ":" +
                          at("system") + ":relative:" + at("nowhere");
  const std::string fixed = at("fixed");
  const std::array<const char*, 2> folders = {"/nowhere", fixed.c_str()};
  EXPECT_EQ(trainer_library_path("", own, folders), at("driver") + ":" + fixed);
  EXPECT_EQ(trainer_library_path("/torch", own, folders),
            "/torch/lib:" + at("driver") + ":" + fixed);
  EXPECT_EQ(trainer_library_path("", "", {}), "");
  EXPECT_EQ(trainer_library_path("/torch", at("toolkit"), {}), "/torch/lib");
}

TEST(TrainerEnvironment, NumbersGpusAsNvidiaSmiDoesUnlessToldOtherwise) {
  ::unsetenv("CUDA_DEVICE_ORDER");
  EXPECT_THAT(trainer_environment(), Contains("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
  ::setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
  ::setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True", 1);
  const auto environment = trainer_environment();
  ::unsetenv("CUDA_DEVICE_ORDER");
  ::unsetenv("PYTORCH_ALLOC_CONF");
  EXPECT_THAT(environment, Contains("CUDA_DEVICE_ORDER=FASTEST_FIRST"));
  EXPECT_THAT(environment, Not(Contains("CUDA_DEVICE_ORDER=PCI_BUS_ID")));
  EXPECT_THAT(environment, Contains("PYTORCH_ALLOC_CONF=expandable_segments:True"));
}

// What a cluster allots to a client of MPS holds for a trainer, which is that client.
TEST(TrainerEnvironment, KeepsTheSharesOfMps) {
  ::setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25", 1);
  ::setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=4G", 1);
  const auto environment = trainer_environment();
  ::unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  ::unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  EXPECT_THAT(environment, Contains("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"));
  EXPECT_THAT(environment, Contains("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4G"));
}

// The one variable that loads code is made from a list, never from text of a recipe.
TEST(TrainerEnvironment, LoadsTheAllocatorWhereTheSystemHasIt) {
  const auto glibc = trainer_environment(with("memory.allocator", "glibc"));
  ASSERT_TRUE(glibc);
  EXPECT_THAT(*glibc, Not(Contains(StartsWith("LD_PRELOAD"))));
  for (const AllocatorLibrary& library : kAllocatorLibraries) {
    const auto environment =
        trainer_environment(with("memory.allocator", std::string(library.name)));
    const auto file = find_allocator_library(library.name);
    if (file) {
      ASSERT_TRUE(environment) << environment.error().message();
      EXPECT_THAT(*environment, Contains("LD_PRELOAD=" + file->string()));
    } else {
      ASSERT_FALSE(environment);
      EXPECT_THAT(environment.error().message(),
                  testing::AllOf(StartsWith("memory.allocator: "),
                                 HasSubstr(std::string(library.package))));
    }
  }
  const auto unknown = trainer_environment(with("memory.allocator", "/tmp/mine.so"));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::unsupported);
}

}  // namespace
}  // namespace autotuned::daemon
