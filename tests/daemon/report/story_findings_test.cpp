// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/story_findings.hpp"

#include <gmock/gmock.h>

#include "tests/daemon/report/record_sample.hpp"

namespace autotuned::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// What was tried needs no advice to try it.
TEST(StoryFindings, SayOfAFindingWhatCameOfTryingIt) {
  RunRecord record = sample_record();
  record.profiles[0]["findings"] = {sample_finding("data_loading", "num_workers")};
  record.profiles[1]["findings"] = {sample_finding("gradients", "set_to_none")};
  TrialRecord slower = sample_trial(3, "num_workers", Verdict::rejected, {0.9, 0.85, 0.95, 9});
  slower.change = {};
  slower.change.set("loader.workers", std::int64_t{2});
  slower.rejection = RejectionReason::slower;
  record.trials.push_back(slower);
  std::string story = story_text(record);
  EXPECT_THAT(story,
              AllOf(HasSubstr("\n  Found: data_loading: 41.0 % of the step is spent waiting; "
                              "loader.workers 0 → 2 was tried (trial 3): slower, -10.0 % (between "
                              "-15.0 % and -5.0 %, 9 pairs of blocks).\n"),
                    HasSubstr("\n  Still found: gradients: 41.0 % of the step is spent waiting; "
                              "optimizer.set_to_none off → on was tried (trial 1): kept, +25.0 %"),
                    Not(HasSubstr("acts on it"))));
  const Json json = story_json(record);
  EXPECT_EQ(json.at("start").at("profile").at("findings").at(0).at("tried"),
            Json({{"trial", 3},
                  {"outcome", "slower"},
                  {"rejection", "slower"},
                  {"is_given_up", false},
                  {"reason", ""}}));

  // By another plugin that turns the same knob; what was not decided says nothing.
  record.profiles[0]["findings"][0]["plugin"] = nullptr;
  record.profiles[0]["findings"][0]["knob"] = "loader.workers";
  EXPECT_THAT(story_text(record), HasSubstr("was tried (trial 3): slower"));
  record.trials.back().verdict = Verdict::interrupted;
  EXPECT_THAT(story_text(record), HasSubstr("waiting; do something about it.\n"));
  EXPECT_FALSE(story_json(record).at("start").at("profile").at("findings").at(0).contains("tried"));
  record.trials.back().verdict = Verdict::failed;
  record.trials.back().reason = "the trainer ran out of memory";
  story = story_text(record);
  EXPECT_THAT(story, HasSubstr("was tried (trial 3): it failed, the trainer ran out of memory.\n"));
}

}  // namespace
}  // namespace autotuned::daemon
