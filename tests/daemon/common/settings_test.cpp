// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/settings.hpp"

#include <gtest/gtest.h>

#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

class Settings : public testing::Test {
 protected:
  static Machine machine() {
    Machine machine;
    machine.cpus_allowed = 4;
    machine.gpu_reason = "no NVIDIA driver";
    return machine;
  }

  // Empty, or the message.
  std::string apply(const std::vector<std::string>& settings) {
    const auto applied = apply_settings(settings, knobs_, recipe_);
    return applied ? "" : applied.error().message();
  }

  std::vector<recipes::Knob> knobs_ = recipes::knobs_of(machine());
  recipes::Recipe recipe_;
};

TEST_F(Settings, AreSetOverTheRecipe) {
  recipe_.start.set("loader.workers", std::int64_t{1});
  EXPECT_EQ(apply({"loader.workers=2", "optimizer.set_to_none=on", "batch_size=64",
                   "env.MALLOC_ARENA_MAX=1", "loader.workers=3"}),
            "");
  EXPECT_EQ(recipe_.start.integer("loader.workers"), 3);
  EXPECT_TRUE(recipe_.start.flag("optimizer.set_to_none"));
  EXPECT_EQ(recipe_.start.text("env.MALLOC_ARENA_MAX"), "1");
  EXPECT_EQ(recipe_.train.batch_size, 64);
  EXPECT_EQ(recipe_.start.find("batch_size"), nullptr);
  EXPECT_EQ(recipe_.starting_configuration(knobs_).integer("batch_size"), 64);
}

// Else best.yaml would be a recipe that the checker refuses.
TEST_F(Settings, ALargeBatchRaisesTheLimitOfBatches) {
  recipe_.tune.batch_size_max = 1024;
  EXPECT_EQ(apply({"batch_size=64"}), "");
  EXPECT_EQ(recipe_.tune.batch_size_max, 1024);
  EXPECT_EQ(apply({"batch_size=2048"}), "");
  EXPECT_EQ(recipe_.train.batch_size, 2048);
  EXPECT_EQ(recipe_.tune.batch_size_max, 2048);
}

TEST_F(Settings, OfALongNameAreNotToldWhole) {
  const std::string name(5000, 'x');
  for (const std::string& setting : {name, name + "=1", "loader.workers=" + name})
    EXPECT_LT(apply({setting}).size(), 300U);
}

TEST_F(Settings, ThatAreWrongAreRefusedWithWhatToDo) {
  tests::Cases cases;
  for (const char* setting :
       {"loader.wrokers=2", "warp=9", "=9", "loader.workers=5", "loader.workers=many",
        "loader.workers=", "memory.malloc=hoard", "optimizer.set_to_none=maybe", "lr=0.1",
        "train.epochs=3", "loader.worker=3", "cheat.mode=fast", "loader.pin_memory=on",
        "loader.workers"})
    cases.add(setting, apply({setting}));
  EXPECT_TRUE(recipe_.start.empty());
  tests::expect_golden("daemon/common/golden/settings.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::daemon
