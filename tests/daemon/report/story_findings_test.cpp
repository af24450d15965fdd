// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/story_findings.hpp"

#include <gtest/gtest.h>

#include "tests/daemon/report/record_sample.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

// What was tried needs no advice to try it.
TEST(StoryFindings, SayOfAFindingWhatCameOfTryingIt) {
  const std::string usual = story_text(sample_record());
  RunRecord record = sample_record();
  record.profiles[0]["findings"] = {sample_finding("data_loading", "num_workers")};
  record.profiles[1]["findings"] = {sample_finding("gradients", "set_to_none")};
  TrialRecord slower = sample_trial(3, "num_workers", Verdict::rejected, {0.9, 0.85, 0.95, 9});
  slower.change = {};
  slower.change.set("loader.workers", std::int64_t{2});
  slower.rejection = RejectionReason::slower;
  record.trials.push_back(slower);
  tests::Cases cases;
  cases.add_difference("each plugin of a finding has tried", usual, story_text(record));
  Json& finding = record.profiles[0]["findings"][0];
  EXPECT_EQ(story_json(record).at("start").at("profile").at("findings").at(0).at("tried"),
            Json({{"trial", 3},
                  {"outcome", "slower"},
                  {"rejection", "slower"},
                  {"is_given_up", false},
                  {"reason", ""}}));

  finding["plugin"] = nullptr;
  finding["knob"] = "loader.workers";
  cases.add_difference("another plugin turned the same knob", usual, story_text(record));
  record.trials.back().verdict = Verdict::interrupted;
  cases.add_difference("what was not decided says nothing", usual, story_text(record));
  EXPECT_FALSE(story_json(record).at("start").at("profile").at("findings").at(0).contains("tried"));
  record.trials.back().verdict = Verdict::failed;
  record.trials.back().reason = "the trainer ran out of memory";
  cases.add_difference("it failed", usual, story_text(record));
  record = sample_record();
  record.profiles[0]["findings"] = {sample_finding("wide_arithmetic", "amp"),
                                    sample_finding("host_blocks", "broken")};
  record.answers = {
      {.plugin = "amp", .outcome = "this CPU has no bf16", .is_answered = true},
      {.plugin = "broken", .outcome = "did not answer", .is_failure = true, .is_answered = true}};
  cases.add_difference("no plugin of a finding acts on it", usual, story_text(record));
  const Json found = story_json(record).at("start").at("profile").at("findings");
  EXPECT_EQ(found.at(0).at("declined"),
            Json({{"because", "this CPU has no bf16"}, {"is_failure", false}}));
  EXPECT_EQ(found.at(1).at("declined"),
            Json({{"because", "did not answer"}, {"is_failure", true}}));
  tests::expect_golden("daemon/report/golden/story_findings.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::daemon
