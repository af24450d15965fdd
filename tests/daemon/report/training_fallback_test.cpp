// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/training_fallback.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "daemon/report/report.hpp"
#include "daemon/report/story.hpp"
#include "tests/daemon/report/record_sample.hpp"
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
  tests::expect_golden("daemon/report/golden/training_fallback.txt", cases.text());
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

storage::RunRow run_with_extension() {
  storage::RunRow run = kept_run();
  run.starting.set("mine.skip", false);
  run.best.set("mine.skip", true);
  return run;
}

Error of_extension() {
  Error error{ErrorKind::internal, "plugin mine: on_batch: leaves other labels in step 7",
              "training step", ""};
  error.extensions = {"mine"};
  return error;
}

TEST(ExtensionFallback, TellsWhatTheTrainingWentOnWithoutAndFromWhere) {
  storage::RunRow run = run_with_extension();
  EXPECT_EQ(extension_fallback_text(run), "");
  EXPECT_TRUE(refused_in_training(run).empty());
  Configuration next = run.best;
  next.set("mine.skip", false);
  add_fallback(next, of_extension(), 7, run, 5);
  EXPECT_EQ(trained_configuration(run), next);
  const Json& added = run.training.at(kFallbacks)[0];
  EXPECT_EQ(added.at("extensions"), Json::array({"mine"}));
  EXPECT_EQ(added.at("refused"), Json::object({{"mine.skip", true}}));
  EXPECT_EQ(added.at("from_step"), 5);
  Configuration refused;
  refused.set("mine.skip", true);
  EXPECT_EQ(refused_in_training(run), std::vector<Configuration>{refused});
  EXPECT_EQ(extension_fallback_text(run),
            "the training went on from step 5 without plugin mine (mine.skip on → off), which is "
            "not tried again: training step: plugin mine: on_batch: leaves other labels in step 7");
  EXPECT_EQ(fallback_text(run), extension_fallback_text(run));
  EXPECT_EQ(memory_fallback_text(run), "");
}

TEST(ExtensionFallback, IsToldApartFromALackOfMemory) {
  storage::RunRow run = run_with_extension();
  Configuration smaller = run.best;
  smaller.set("batch_size", std::int64_t{256});
  add_fallback(smaller, {ErrorKind::out_of_memory, "full", "", ""}, 7, run);
  Configuration next = smaller;
  next.set("mine.skip", false);
  add_fallback(next, of_extension(), 8, run);
  EXPECT_EQ(trained_configuration(run), next);
  EXPECT_EQ(memory_fallback_text(run),
            "the training ran out of memory and went on with batch_size 512 → 256: full");
  EXPECT_EQ(fallback_text(run), memory_fallback_text(run) + "; " + extension_fallback_text(run));
  EXPECT_TRUE(run.training.at(kFallbacks)[1].at("from_step").is_null());
  EXPECT_FALSE(run.training.at(kFallbacks)[0].contains("refused"));
}

TEST(ExtensionFallback, TheRatioIsThatOfWhatWasLeftOut) {
  RunRecord record = sample_record();
  record.run.starting.set("mine.skip", false);
  record.run.best.set("mine.skip", true);
  RunRecord caught = record;
  EXPECT_EQ(left_out_text(caught.run), "");
  EXPECT_TRUE(break_even(caught.run));
  Configuration next = caught.run.best;
  next.set("mine.skip", false);
  add_fallback(next, of_extension(), 7, caught.run, 5);
  EXPECT_EQ(left_out_plugins(caught.run), "plugin mine");
  EXPECT_FALSE(break_even(caught.run));
  tests::Cases cases;
  cases.add_difference("the story", story_text(record), story_text(caught));
  cases.add_difference("the card", summary_text(record.run, record.trials),
                       summary_text(caught.run, caught.trials));
  tests::expect_golden("daemon/report/golden/extension_left_out.txt", cases.text());
  caught.run.speedup.pairs = 0;
  EXPECT_EQ(left_out_text(caught.run), "") << "nothing was confirmed";
}

TEST(ExtensionFallback, ALackOfMemoryLeavesOutNoPlugin) {
  storage::RunRow run = kept_run();
  add_fallback(batches_of(256), {ErrorKind::out_of_memory, "full", "", ""}, 7, run);
  EXPECT_EQ(left_out_plugins(run), "");
  EXPECT_EQ(left_out_text(run), "");
}

TEST(ExtensionFallback, IsTakenBackWhereItWasAGuessWithWhatCameAfterIt) {
  storage::RunRow run = run_with_extension();
  take_back_guess(run);
  EXPECT_FALSE(run.training.is_object() && run.training.contains(kFallbacks));
  Configuration next = run.best;
  next.set("mine.skip", false);
  Configuration smaller = next;
  smaller.set("batch_size", std::int64_t{256});
  const Error full{ErrorKind::out_of_memory, "full", "", ""};
  add_fallback(next, of_extension(), 7, run, 5, 2);
  EXPECT_EQ(run.training.at(kFallbacks)[0].at("ends"), 2);
  EXPECT_EQ(refused_in_training(run).size(), 1U) << "as of one that was found out";
  add_fallback(smaller, full, 8, run);
  take_back_guess(run);
  EXPECT_EQ(trained_configuration(run), run.best);
  EXPECT_FALSE(run.training.contains(kFallbacks));

  add_fallback(next, of_extension(), 9, run, 5);
  take_back_guess(run);
  EXPECT_EQ(trained_configuration(run), next) << "one that was found out stays out";
  EXPECT_FALSE(run.training.at(kFallbacks)[0].contains("ends"));
}

TEST(ExtensionFallback, IsTakenBackWhereTheExtensionWasOnlySuspected) {
  storage::RunRow run = run_with_extension();
  Configuration next = run.best;
  next.set("mine.skip", false);
  Error error = of_extension();
  error.extension_fault = ExtensionFault::suspected;
  add_fallback(next, error, 7, run, 5);
  EXPECT_EQ(run.training.at(kFallbacks)[0].at("fault"), "suspected");
  EXPECT_EQ(extension_fallback_text(run).find("may be wrong"), std::string::npos);
  EXPECT_EQ(doubted_steps(run), "") << "it threw; the steps before were compared";
  take_back_guess(run);
  EXPECT_FALSE(run.training.contains(kFallbacks));
}

TEST(ExtensionFallback, OfAComparisonSaysWhichStepsMayBeWrongToo) {
  storage::RunRow run = run_with_extension();
  Configuration next = run.best;
  next.set("mine.skip", false);
  Error error = of_extension();
  add_fallback(next, error, 7, run, 1315);
  EXPECT_FALSE(run.training.at(kFallbacks)[0].contains("fault"));
  EXPECT_EQ(doubted_steps(run), "");
  run.training.erase(kFallbacks);
  error.extension_fault = ExtensionFault::trained_otherwise;
  add_fallback(next, error, 7, run, 1315);
  EXPECT_EQ(extension_fallback_text(run),
            "the training went on from step 1315 without plugin mine (mine.skip on → off), which "
            "is not tried again: training step: plugin mine: on_batch: leaves other labels in step "
            "7; the steps up to 1,315 were trained with it and may be wrong, too: --without mine "
            "with another --output trains them anew");
  EXPECT_EQ(doubted_steps(run), "the steps up to 1,315, with plugin mine");
  take_back_guess(run);
  EXPECT_EQ(trained_configuration(run), next) << "a comparison is no guess";
  run.training.erase(kFallbacks);
  add_fallback(next, error, 7, run, 0);
  EXPECT_EQ(doubted_steps(run), "") << "it began anew";
  EXPECT_EQ(extension_fallback_text(run).find("may be wrong"), std::string::npos);
  EXPECT_EQ(doubted_steps_text({"mine", "other"}, std::nullopt),
            "the steps before its last checkpoint were trained with them and may be wrong, too: "
            "--without mine --without other with another --output trains them anew");
}

TEST(ExtensionFallback, NamesAllOfThem) {
  EXPECT_EQ(plugins_text({"mine"}), "plugin mine");
  EXPECT_EQ(plugins_text({"mine", "other"}), "plugin mine and plugin other");
  EXPECT_EQ(from_text(600), "from step 600");
  EXPECT_EQ(from_text(0), "from its start");
  EXPECT_EQ(from_text(std::nullopt), "from its last checkpoint");
}

TEST(MemoryFallback, ThatCannotBeReadIsNone) {
  storage::RunRow run = kept_run();
  run.training = {{kFallbacks, "odd"}};
  EXPECT_EQ(trained_configuration(run), run.best);
  EXPECT_FALSE(is_memory_taken_by_others(run));
  run.training = {{kFallbacks, Json::array({1})}};
  EXPECT_EQ(trained_configuration(run), run.best);
  EXPECT_TRUE(refused_in_training(run).empty());
  EXPECT_EQ(extension_fallback_text(run), "");
}

}  // namespace
}  // namespace autotuned::daemon
