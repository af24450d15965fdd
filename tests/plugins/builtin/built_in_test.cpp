// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

// Whatever a plugin is asked, it answers in the form that was agreed.
TEST(BuiltIn, AnswersAreWellFormed) {
  for (const FoundPlugin& found : built_ins()) {
    const std::string& plugin = found.name;
    for (const Json& asked : {situation("fashion_cnn_cpu"), situation("resnet18_gpu"),
                              Json::object(), Json(3), Json{{"metrics", 3}, {"knobs", "x"}}}) {
      const Json answer = ask(plugin, asked);
      const Json& candidates = answer.at("candidates");
      EXPECT_NE(candidates.empty(), none_because(answer).empty()) << plugin;
      for (const Json& candidate : candidates) {
        EXPECT_FALSE(candidate.at("change").empty()) << plugin;
        EXPECT_GE(candidate.at("expected_gain_ratio").get<double>(), 1.0) << plugin;
        EXPECT_LE(candidate.at("expected_gain_ratio").get<double>(), 20.1) << plugin;
        EXPECT_FALSE(candidate.at("reason").get<std::string>().ends_with('.')) << plugin;
        if (candidate.contains("signal_share_ratio")) {
          EXPECT_GE(candidate.at("signal_share_ratio").get<double>(), 0.0) << plugin;
          EXPECT_LE(candidate.at("signal_share_ratio").get<double>(), 1.0) << plugin;
        }
        for (const auto& [knob, value] : candidate.at("change").items()) {
          if (knob.starts_with("env.")) continue;
          EXPECT_TRUE(asked.at("knobs").contains(knob)) << plugin;
          EXPECT_NE(asked.at("incumbent").at(knob), value) << plugin;
        }
      }
    }
  }
}

}  // namespace
}  // namespace autotuned::plugins
