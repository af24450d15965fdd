// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/memory_fallback.hpp"

#include <gtest/gtest.h>

#include "daemon/report/report.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

storage::RunRow kept_run() {
  storage::RunRow run;
  run.starting.set("batch_size", std::int64_t{32});
  run.best.set("batch_size", std::int64_t{512});
  run.baseline_samples_per_second = 1000.0;
  run.best_samples_per_second = 4000.0;
  run.speedup = {.ratio = 4.0, .low = 3.9, .high = 4.1, .pairs = 20};
  return run;
}

Configuration batches_of(std::int64_t size) {
  Configuration configuration;
  configuration.set("batch_size", size);
  return configuration;
}

TEST(MemoryFallback, TheLastOneTrains) {
  storage::RunRow run = kept_run();
  EXPECT_EQ(trained_configuration(run), run.best);
  EXPECT_EQ(memory_fallback_text(run), "");
  const Error error{ErrorKind::out_of_memory, "the GPU is full\nand more", "training step",
                    "use smaller batches"};
  add_fallback(batches_of(256), error, 7, run);
  add_fallback(batches_of(128), error, 8, run);
  EXPECT_EQ(trained_configuration(run), batches_of(128));
  EXPECT_EQ(run.best, batches_of(512)) << "what was measured stays";
  ASSERT_EQ(run.training.at(kFallbacks).size(), 2);
  EXPECT_EQ(run.training.at(kFallbacks)[0].at("change"), Json::object({{"batch_size", 256}}));
  EXPECT_EQ(run.training.at(kFallbacks)[1].at("unix_ns"), 8);
  EXPECT_EQ(memory_fallback_text(run),
            "the training ran out of memory and went on with batch_size 512 → 128: training step: "
            "the GPU is full");
}

TEST(MemoryFallback, IsToldBesideTheTraining) {
  storage::RunRow run = kept_run();
  run.training = {{"steps", 10}, {"samples", 20'000}, {"duration_ns", 20'000'000'000}};
  tests::Cases cases;
  cases.add("as slow as the smaller batches", "\n" + summary_text(run, {}));
  add_fallback(batches_of(32), {ErrorKind::out_of_memory, "full", "", ""}, 7, run);
  cases.add("it fell back to them", "\n" + summary_text(run, {}));
  tests::expect_golden("daemon/report/golden/memory_fallback.txt", cases.text());
}

TEST(MemoryFallback, KnowsWhenOtherProgramsHadTheMemory) {
  storage::RunRow run = kept_run();
  EXPECT_FALSE(is_memory_taken_by_others(run));
  add_fallback(batches_of(256), {ErrorKind::out_of_memory, "full", "", "use smaller batches"}, 7,
               run);
  EXPECT_FALSE(is_memory_taken_by_others(run));
  Error error{ErrorKind::out_of_memory, "full", "", "end the other programs on this GPU"};
  add_fallback(batches_of(128), error, 8, run);
  EXPECT_FALSE(is_memory_taken_by_others(run)) << "a sentence alone decides nothing";
  error.is_memory_of_others = true;
  add_fallback(batches_of(64), error, 9, run);
  EXPECT_TRUE(is_memory_taken_by_others(run));
}

TEST(MemoryFallback, ThatCannotBeReadIsNone) {
  storage::RunRow run = kept_run();
  run.training = {{kFallbacks, "odd"}};
  EXPECT_EQ(trained_configuration(run), run.best);
  EXPECT_FALSE(is_memory_taken_by_others(run));
  run.training = {{kFallbacks, Json::array({1})}};
  EXPECT_EQ(trained_configuration(run), run.best);
}

}  // namespace
}  // namespace autotuned::daemon
