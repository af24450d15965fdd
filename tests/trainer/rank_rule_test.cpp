// SPDX-License-Identifier: Apache-2.0
#include "trainer/rank_rule.hpp"

#include <gtest/gtest.h>

namespace autotuned::trainer {
namespace {

TEST(RankRule, WhatChangesARankIsForAll) {
  for (const char* request : {"prepare", "restore", "checkpoint", "import", "run", "train"})
    EXPECT_TRUE(is_for_all_ranks(request)) << request;
  for (const char* request : {"place", "digest", "compare", "export", "save", "stop"})
    EXPECT_FALSE(is_for_all_ranks(request)) << request;
}

// Who fails in what the others wait for must let go of them.
TEST(RankRule, OnlyStepsAreWaitedFor) {
  for (const char* request : {"load", "run", "steps", "check_steps", "profile", "trace", "train"})
    EXPECT_TRUE(steps_together(request)) << request;
  for (const char* request :
       {"prepare", "restore", "checkpoint", "drop", "renew", "round", "import"})
    EXPECT_FALSE(steps_together(request)) << request;
}

}  // namespace
}  // namespace autotuned::trainer
