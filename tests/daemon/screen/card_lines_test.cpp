// SPDX-License-Identifier: Apache-2.0
// The lines of the card that are not in the summary. golden_test.cpp has whole cards.
#include <gtest/gtest.h>

#include <string>

#include "daemon/report/run_files.hpp"
#include "daemon/report/test_report.hpp"
#include "daemon/screen/run_lines.hpp"

namespace autotuned::daemon {
namespace {

std::string card_of(const Json& result, const std::string& text) {
  std::string card;
  for (const Line& line : card_lines(result, text, "/srv/ada", {}))
    card += drawn(line, {}) + "\n";
  return card;
}

Json result_without_training() {
  return {{"run", "r-2"}, {"state", "finished"}, {"output", "/srv/ada/out"}};
}

constexpr const char* kNext = "next     autotuned explain r-2, autotuned show r-2\n";

TEST(CardLines, NameTheRecipeThatTheRunWrote) {
  EXPECT_EQ(card_of(result_without_training(), "kept     nothing\n"),
            std::string("\nkept     nothing\nrecipe   out/best.yaml\n") + kNext);
}

TEST(CardLines, SayWhoseRecipeStaysBesideAModel) {
  Json result = result_without_training();
  result[kFilesOf] = "r-1";
  EXPECT_EQ(card_of(result, "kept     nothing\n"),
            std::string("\nkept     nothing\nrecipe   not written: best.yaml and summary.json in "
                        "out stay those of run r-1, whose model is there; `autotuned best RECIPE` "
                        "prints the configuration\n") +
                kNext);
}

TEST(CardLines, NameTheWeightsThatWereTested) {
  Json result = result_without_training();
  result["training"] = {{"steps", 3}};
  EXPECT_EQ(card_of(result, ""),
            std::string("\nmodel    out/model.pt\nrecipe   out/best.yaml\n") + kNext);
  result["training"][kTestWeights] = "model_ema.pt";
  EXPECT_EQ(card_of(result, ""),
            std::string("\nmodel    out/model_ema.pt, to which the figures belong; model.pt beside "
                        "it has the last weights\nrecipe   out/best.yaml\n") +
                kNext);
}

}  // namespace
}  // namespace autotuned::daemon
