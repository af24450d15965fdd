// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/token_report.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include "daemon/report/report.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

storage::RunRow run_of(const Json& data) {
  storage::RunRow run;
  run.recipe = {{"data", data}};
  return run;
}

TEST(TokenReport, CountsTheTokensOfASample) {
  EXPECT_EQ(tokens_per_sample({{"data", {{"type", "tokens"}, {"context", 64}}}}), 64);
  EXPECT_EQ(tokens_per_sample({{"data", {{"type", "synthetic_tokens"}, {"context", 8}}}}), 8);
  EXPECT_EQ(tokens_per_sample({{"data", {{"type", "idx"}, {"context", 8}}}}), 0);
  EXPECT_EQ(tokens_per_sample(Json()), 0);
}

TEST(TokenReport, TellsTokensBesideSamples) {
  EXPECT_EQ(run_rate_text(run_of({{"type", "tokens"}, {"context", 64}}), 1234.0),
            "1,234 samples/s (78,976 tokens/s)");
  EXPECT_EQ(run_rate_text(run_of({{"type", "idx"}}), 1234.0), "1,234 samples/s");
  EXPECT_EQ(told_rate({{"samples_per_second", 10.0}, {"tokens_per_second", 640.0}}),
            "10 samples/s (640 tokens/s)");
  EXPECT_EQ(told_rate({{"samples_per_second", 10.0}}), "10 samples/s");
}

TEST(TokenReport, TellsPerplexityAndBits) {
  const Json figures = {{"test_perplexity", 5.93149}, {"test_bits_per_byte", 2.56845}};
  EXPECT_EQ(token_figures_text(figures, "test_", ", ", ""),
            ", perplexity 5.931, 2.568 bits per byte");
  EXPECT_EQ(token_figures_text({{"perplexity", 12.0}}, "", "", ", "), "perplexity 12, ");
  EXPECT_EQ(token_figures_text(figures, "", "", ", "), "");
}

TEST(TokenReport, IsPartOfTheCard) {
  storage::RunRow run = run_of({{"type", "tokens"}, {"context", 10}});
  run.training = {{"steps", 3},        {"samples", 60},        {"duration_ns", 1e9},
                  {"final_loss", 1.5}, {"test_accuracy", 0.5}, {"test_perplexity", 4.0}};
  run.best.set("batch_size", std::int64_t{20});
  const EnvironmentVariable zone("TZ", "UTC");
  ::tzset();
  tests::expect_golden("daemon/report/golden/token_card.txt", run_text(run, {}));
}

}  // namespace
}  // namespace autotuned::daemon
