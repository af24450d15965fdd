// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/settings.hpp"

#include <gmock/gmock.h>

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

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

TEST_F(Settings, OfAnUnknownKnobNameTheNearest) {
  EXPECT_EQ(
      apply({"loader.wrokers=2"}),
      "-s loader.wrokers=2: there is no knob 'loader.wrokers'; did you mean 'loader.workers'?");
  EXPECT_EQ(apply({"warp=9"}), "-s warp=9: there is no knob 'warp'; `autotuned knobs` lists them");
  EXPECT_EQ(apply({"=9"}), "-s =9: there is no knob ''; `autotuned knobs` lists them");
}

TEST_F(Settings, OutsideTheDomainNameIt) {
  EXPECT_THAT(apply({"loader.workers=5"}),
              HasSubstr("-s loader.workers=5: expected an integer from 0 to 4"));
  EXPECT_THAT(apply({"loader.workers=many"}), HasSubstr("0 to 4"));
  EXPECT_THAT(apply({"loader.workers="}), HasSubstr("0 to 4"));
  EXPECT_THAT(apply({"memory.malloc=hoard"}), HasSubstr("default"));
  EXPECT_THAT(apply({"optimizer.set_to_none=maybe"}), HasSubstr("on"));
  EXPECT_TRUE(recipe_.start.empty());
}

TEST_F(Settings, ThatBelongIntoTheRecipeSayWhere) {
  EXPECT_EQ(apply({"lr=0.1"}),
            "-s lr=0.1: 'lr' is no knob but a setting of the recipe; write it into the recipe, as "
            "optimizer.lr");
  EXPECT_THAT(apply({"train.epochs=3"}), HasSubstr("as train.epochs"));
  EXPECT_THAT(apply({"loader.worker=3"}), HasSubstr("did you mean 'loader.workers'?"));
}

TEST_F(Settings, ThatThisMachineCannotFollowSayWhy) {
  EXPECT_THAT(apply({"loader.pin_memory=on"}), HasSubstr("no NVIDIA driver"));
}

TEST_F(Settings, NeedAValue) {
  EXPECT_EQ(apply({"loader.workers"}), "-s loader.workers: expected KNOB=VALUE");
}

}  // namespace
}  // namespace autotuned::daemon
