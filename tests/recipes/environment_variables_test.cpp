// SPDX-License-Identifier: Apache-2.0
#include "recipes/environment_variables.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.hpp"
#include "tests/places.hpp"

namespace autotuned::recipes {
namespace {

TEST(EnvironmentVariables, NobodySetsThoseThatControlTrainers) {
  for (const char* name :
       {"AUTOTUNED_JOB", "AUTOTUNED_PARENT_PID", "AUTOTUNED_TRAINER_MARK", "AUTOTUNED_ANY",
        "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "TMPDIR",
        "CUBLAS_LOGDEST_DBG", "CUDNN_LOGDEST_DBG", "PATH", "HOME", "LD_PRELOAD", "LD_AUDIT"}) {
    EXPECT_FALSE(is_settable_variable(name)) << name;
    EXPECT_FALSE(is_variable_for_plugins(name)) << name;
  }
}

TEST(EnvironmentVariables, PluginsSetWhatIsListed) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "GLIBC_TUNABLES",
                           "MALLOC_ARENA_MAX", "CUDA_MODULE_LOADING", "PLACEBO_A", "PLACEBO_"}) {
    EXPECT_TRUE(is_variable_for_plugins(name)) << name;
  }
  for (const char* name : {"SETTING", "PLACEBO", "OMP_WAIT_POLICY2", "LANG", "", "PLACEBO_PATH"}) {
    EXPECT_FALSE(is_variable_for_plugins(name)) << name;
  }
  EXPECT_TRUE(is_settable_variable("SETTING")) << "a recipe may";
}

TEST(EnvironmentVariables, TheListIsInOrderAndWhatItPermitsMayBeSet) {
  EXPECT_TRUE(std::ranges::is_sorted(variables_for_plugins()));
  for (const std::string_view name : variables_for_plugins()) {
    const std::string_view plain = name.substr(0, name.find('*'));
    EXPECT_TRUE(is_settable_variable(plain)) << name;
  }
}

TEST(EnvironmentVariables, TheDocumentsTellTheList) {
  const auto page = read_file(tests::source_folder() / "docs/knobs.md", std::size_t{1} << 20U);
  ASSERT_TRUE(page);
  for (const std::string_view name : variables_for_plugins())
    EXPECT_NE(page->find("`" + std::string(name) + "`"), std::string::npos) << name;
}

}  // namespace
}  // namespace autotuned::recipes
