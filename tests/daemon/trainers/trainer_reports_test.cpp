// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_reports.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace autotuned::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(TrainerReports, EachThingIsPassedOnOnce) {
  std::vector<Json> damages;
  std::vector<std::string> warnings;
  TrainerReports reports([&](const Json& damage) { damages.push_back(damage); },
                         [&](const std::string& text) { warnings.push_back(text); });
  for (int trainer = 0; trainer < 2; ++trainer) {
    reports.take({{"warning", "slow"}});
    reports.take({{"damaged", {{"file", "a.jpg"}, {"what", "it ends early"}}}});
    reports.take({{"damaged", {{"file", "b.jpg"}, {"what", "it ends early"}}}});
    reports.take({{"step", 1}});
  }
  EXPECT_THAT(warnings, ElementsAre("slow"));
  ASSERT_THAT(damages, SizeIs(2));
  EXPECT_EQ(damages[0].at("files"), 1);
  EXPECT_EQ(damages[1].at("file"), "b.jpg");
  EXPECT_EQ(damages[1].at("files"), 2);
}

TEST(TrainerReports, NobodyNeedsToListen) {
  TrainerReports reports(nullptr, nullptr);
  reports.take({{"warning", "slow"}});
  reports.take({{"damaged", {{"file", "a.jpg"}}}});
}

}  // namespace
}  // namespace autotuned::daemon
