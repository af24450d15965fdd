// SPDX-License-Identifier: Apache-2.0
// A cache whose filling no block shows, through whole runs: kept by a training that repays it, and by no shorter one.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class OneTimeCost : public testing::Test {
 protected:
  OneTimeCost() : folder_(scene_.use_trainer_plugins({"tiny"})) {
    // Unlike input_cache it does not ask how often a sample comes.
    scene_.write_plugin("keeps", "input.cache: raw");
  }

  // Reading is nearly all that a step does, so that a sample's first visit takes as long with a cache as without.
  Json tune(int epochs) {
    scene_.write_job(
        "model: {plugin: tiny}\ndata: {plugin: tiny, samples: 512, read_ms: 2}\n"
        "input: [scale: {by: 1/255}]\noptimizer: {type: sgd, lr: 0.1}\n"
        "train: {epochs: " +
        std::to_string(epochs) + ", batch_size: 16}\ntune: {plugins: [keeps], budget: 60s}\n");
    outcome_ = scene_.run({"--tune-only", "--verbose", "--plugin-dir", folder_.string()});
    EXPECT_EQ(outcome_.code, 0) << outcome_.err;
    return outcome_.json();
  }

  Scene scene_;
  std::filesystem::path folder_;
  Outcome outcome_;
};

TEST_F(OneTimeCost, OfACacheIsPaidByTheTrainingThatRepaysIt) {
  // No sample comes a second time.
  const Json once = tune(1);
  ASSERT_EQ(once.at("trials").size(), 1U);
  const Json& refused = once.at("trials").at(0);
  EXPECT_EQ(refused.at("rejection"), "not_repaid") << refused.dump(1);
  EXPECT_GT(refused.at("one_time_ns"), 0);
  EXPECT_GT(refused.at("ratio"), 2.0);
  EXPECT_THAT(refused.at("reason").get<std::string>(), HasSubstr("making the samples once takes"));
  EXPECT_EQ(once.at("best").at("configuration").at("input.cache"), "none");

  // What was not repaid by the short training is tried again by a longer one.
  const Json often = tune(8);
  EXPECT_THAT(outcome_.err, HasSubstr("trained less"));
  EXPECT_EQ(often.at("trials").at(0).at("verdict"), "accepted") << often.at("trials").at(0).dump(1);
  EXPECT_EQ(often.at("best").at("configuration").at("input.cache"), "raw");
  EXPECT_GT(often.at("best").at("one_time_ns"), 0);

  // And what that one remembers is not for the short one.
  const Json again = tune(1);
  EXPECT_THAT(outcome_.err, HasSubstr("too short to repay input.cache=raw"));
  EXPECT_EQ(again.at("best").at("configuration").at("input.cache"), "none");
  EXPECT_THAT(again.at("trials"), IsEmpty()) << "that was decided";
}

}  // namespace
}  // namespace autotuned
