// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_environment.hpp"

#include <gmock/gmock.h>

#include "base/machine/allocator_library.hpp"

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
