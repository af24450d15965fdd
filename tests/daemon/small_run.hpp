// SPDX-License-Identifier: Apache-2.0
// A run in a history, with its environment and its recipe.
#pragma once

#include <gtest/gtest.h>

#include "storage/history.hpp"

namespace autotuned::daemon {

[[nodiscard]] inline storage::RunRow put_small_run(storage::History& history) {
  storage::RunRow run;
  run.id = {"r-20261121-7f3a9c"};
  run.recipe_hash = "0123456789abcdef";
  run.recipe_name = "small";
  run.environment_key = "fedcba9876543210";
  run.recipe = Json::object();
  EXPECT_TRUE(history.put_environment({run.environment_key, Json::object(), "2.11.0", ""}));
  EXPECT_TRUE(history.put_recipe({run.recipe_hash, "small", "", Json::object()}));
  EXPECT_TRUE(history.put_run(run));
  return run;
}

}  // namespace autotuned::daemon
