// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/next_configuration.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/common/trainer_plugins.hpp"

namespace autotuned::daemon {
namespace {

Configuration configuration(std::int64_t batch_size, bool is_graph) {
  Configuration made;
  made.set("batch_size", batch_size);
  made.set("cuda.graph", is_graph);
  return made;
}

TrialRecord trial_of(std::int64_t reference, std::int64_t batch_size) {
  TrialRecord trial;
  trial.reference = configuration(reference, false);
  trial.change.set("batch_size", batch_size);
  trial.verdict = Verdict::accepted;
  trial.estimate.pairs = 8;
  return trial;
}

const Configuration kStart = configuration(32, false);

TEST(AfterOutOfMemory, TakesTheNextSmallerSizeThatWasMeasured) {
  const std::vector<TrialRecord> trials = {trial_of(32, 128), trial_of(128, 512),
                                           trial_of(512, 256), trial_of(512, 1024)};
  auto next = after_out_of_memory(configuration(512, true), kStart, trials);
  for (const std::int64_t expected : {256, 128, 32}) {
    ASSERT_TRUE(next);
    EXPECT_EQ(*next, configuration(expected, true)) << "other knobs stay";
    next = after_out_of_memory(*next, kStart, trials);
  }
  ASSERT_TRUE(next);
  EXPECT_EQ(*next, kStart);
  EXPECT_FALSE(after_out_of_memory(kStart, kStart, trials));
}

TEST(AfterOutOfMemory, LeavesOutWhatDidNotRun) {
  TrialRecord failed = trial_of(32, 256);
  failed.verdict = Verdict::failed;
  TrialRecord unmeasured = trial_of(32, 192);
  unmeasured.estimate.pairs = 0;
  TrialRecord other = trial_of(32, 160);
  other.verdict = Verdict::rejected;
  other.rejection = RejectionReason::not_same_model;
  TrialRecord slower = trial_of(32, 64);
  slower.verdict = Verdict::rejected;
  slower.rejection = RejectionReason::slower;
  const auto next =
      after_out_of_memory(configuration(512, false), kStart, {failed, unmeasured, other, slower});
  ASSERT_TRUE(next);
  EXPECT_EQ(*next, configuration(64, false));
}

TEST(AfterOutOfMemory, DoesNotGoBackToLargerBatches) {
  EXPECT_FALSE(after_out_of_memory(configuration(8, true), kStart, {}));
  EXPECT_EQ(after_out_of_memory(configuration(32, true), kStart, {}), kStart);
}

TEST(WithoutExtensions, PutsTheirKnobsBackAndLeavesTheOthers) {
  Configuration start = kStart;
  start.set("mine.skip", false);
  start.set("other.skip", false);
  Configuration failed = configuration(512, true);
  failed.set("mine.skip", true);
  failed.set("other.skip", true);
  const auto next = without_extensions(failed, start, {"mine.skip", "mine.more"});
  ASSERT_TRUE(next);
  Configuration expected = failed;
  expected.set("mine.skip", false);
  EXPECT_EQ(*next, expected);
  EXPECT_FALSE(without_extensions(*next, start, {"mine.skip"})) << "it is off already";
  EXPECT_FALSE(without_extensions(failed, start, {})) << "an extension that is not known here";
}

TEST(Suspicion, SaysHowOftenTheTrainerEndedAndThatItIsAGuess) {
  Error error{ErrorKind::crashed, "it ended; the last lines of its log:\nodd", "trainer.log", ""};
  error.signal = 6;
  const Error crashed = suspicion(error, {"mine"}, 2);
  EXPECT_EQ(crashed.message(),
            "trainer.log: the trainer ended 2 times in the training with plugin mine, which may be "
            "the cause; the last time by signal 6");
  EXPECT_EQ(crashed.extensions, std::vector<std::string>{"mine"});
  const Error hung = suspicion({ErrorKind::timeout, "no answer", "", ""}, {"mine", "other"}, 2);
  EXPECT_EQ(hung.message(),
            "the trainer ended 2 times in the training with plugin mine and plugin other, which "
            "may be the cause; the last time because it gave no answer in time");
}

TEST(Suspicion, NamesTheOptionWhereTheRecipeTurnsThemOn) {
  const Error error{ErrorKind::crashed, "it ended", "trainer.log", ""};
  EXPECT_EQ(with_suspects(error, {"mine"}, 3).message(),
            "trainer.log: the trainer ended 3 times in the training with plugin mine, which may be "
            "the cause: it ended; leave it out: --without mine");
  EXPECT_TRUE(with_suspects(error, {"mine"}, 3).extensions.empty()) << "nobody knows";
  EXPECT_EQ(with_suspects(error, {}, 3).message(), error.message());
}

plugins::FoundPlugin extension_with(const std::string& name) {
  plugins::FoundPlugin plugin;
  plugin.state = plugins::FoundPlugin::State::ready;
  plugin.kind = "extension";
  plugin.name = name;
  recipes::Knob knob;
  knob.name = name + ".skip";
  knob.default_value = false;
  plugin.knobs = {knob};
  return plugin;
}

TEST(DifferingExtensions, AreThoseWhoseKnobsDiffer) {
  const std::vector<plugins::FoundPlugin> found = {extension_with("mine"), extension_with("other")};
  Configuration start = kStart;
  start.set("mine.skip", false);
  start.set("other.skip", true);
  Configuration tuned = configuration(512, true);
  tuned.set("mine.skip", true);
  tuned.set("other.skip", true);
  EXPECT_EQ(differing_extensions(found, start, tuned), std::vector<std::string>{"mine"});
  EXPECT_TRUE(differing_extensions(found, start, start).empty());
  EXPECT_TRUE(differing_extensions({}, start, tuned).empty()) << "none is known here";
}

TEST(WithoutExtensions, TheOptionIsTheRemedyWhereThatIsNoWayOut) {
  const Error error{ErrorKind::internal, "it cheats", "training step", ""};
  EXPECT_EQ(with_option_to_leave_out(error, {"mine"}).message(),
            "training step: it cheats; leave it out: --without mine");
  const Error other{ErrorKind::disk_full, "no space left", "", "make room"};
  EXPECT_EQ(with_option_to_leave_out(other, {"mine", "other"}).remedy,
            "make room, or leave it out: --without mine --without other");
  EXPECT_EQ(with_option_to_leave_out(error, {}).remedy, "");
}

}  // namespace
}  // namespace autotuned::daemon
