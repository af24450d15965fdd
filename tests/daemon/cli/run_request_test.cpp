// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/run_request.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace autotuned::daemon {
namespace {

// A daemon stores the end of a run, too, and works in a folder of its own.
TEST(RunRequest, NamesItsHistoryForAnyFolder) {
  const auto here = std::filesystem::current_path();
  ASSERT_EQ(::setenv("AUTOTUNED_HISTORY", "mine.db", /*overwrite=*/1), 0);
  EXPECT_EQ(request_of({}).history, here / "mine.db");
  ::unsetenv("AUTOTUNED_HISTORY");
  RunOptions options;
  options.history = "below/other.db";
  EXPECT_EQ(request_of(options).history, here / "below/other.db");
  options.history = "/srv/history.db";
  EXPECT_EQ(request_of(options).history, "/srv/history.db");
}

}  // namespace
}  // namespace autotuned::daemon
