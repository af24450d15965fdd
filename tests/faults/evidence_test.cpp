// SPDX-License-Identifier: Apache-2.0
// The long forms are worth as much as what they would notice.
#include "tests/faults/evidence.hpp"

#include <gtest/gtest.h>

#include "base/trial.hpp"

namespace autotuned::faults {
namespace {

Json trial(int number, const char* verdict, const char* kind = "proposal") {
  TrialRecord record;
  record.number = number;
  record.plugin = "set_to_none";
  record.reference.set("optimizer.set_to_none", false);
  record.change.set("optimizer.set_to_none", true);
  record.estimate = {.ratio = 1.3, .low = 1.25, .high = 1.35, .pairs = 20};
  record.kind = *trial_kind_from(kind);
  record.verdict = *verdict_from(verdict);
  record.reason = "because";
  return record.to_json("r-1");
}

Outcome ended(const std::vector<Json>& trials) {
  const Json run = {{"state", "finished"}, {"training", {{"steps", 10}}}, {"trials", trials}};
  return {.code = 0, .out = to_line(run) + "\n", .err = ""};
}

// How much is found to be wrong.
template <class Check>
int noticed(Check check) {
  const int before = wrong();
  check();
  return wrong() - before;
}

TEST(Evidence, RunThatEndedRightIsRight) {
  EXPECT_EQ(noticed([] {
              check_right(ended({trial(1, "interrupted"), trial(2, "interrupted"),
                                 trial(3, "accepted"), trial(4, "accepted", "confirmation")}),
                          "a run");
            }),
            0);
}

TEST(Evidence, WhatIsDecidedTwiceIsNoticedWhateverTheVerdict) {
  for (const char* verdict : {"accepted", "rejected", "failed"}) {
    for (const char* other : {"accepted", "rejected", "failed"}) {
      EXPECT_EQ(noticed([&] {
                  check_right(ended({trial(1, verdict), trial(2, other)}), "a run");
                }),
                1);
    }
  }
}

TEST(Evidence, TrialLeftRunningIsNoticed) {
  EXPECT_EQ(noticed([] { check_right(ended({trial(1, "running")}), "a run"); }), 1);
}

TEST(Evidence, WhatWasSaidMustBeStoredAsItWasSaid) {
  const Outcome outcome{.code = 0,
                        .out = "",
                        .err =
                            "run r-1 of small on cpu\n"
                            "rejected   set_to_none: optimizer.set_to_none off → on, 1.30 x "
                            "(1.25 to 1.35)\n"
                            "           because\n"
                            "tuned      1.00 x (1.00 to 1.00): nothing\n"};
  const auto said = said_trials(outcome);
  ASSERT_EQ(said.size(), 1);
  EXPECT_EQ(said_finished(outcome), 1);
  EXPECT_EQ(said_finished({.code = 137, .out = "", .err = "accepted   set_to_n"}), 0) << "cut off";
  const auto missing = [&](const std::vector<std::string>& lines, const Json& stored) {
    return noticed([&] { check_said(lines, {{"r-1.1", to_line(stored)}}, "a run"); });
  };
  EXPECT_EQ(missing(said, trial(1, "rejected")), 0);
  EXPECT_EQ(missing(said, trial(1, "accepted")), 1);
  Json changed = trial(1, "rejected");
  changed["ratio"] = 1.4;
  EXPECT_EQ(missing(said, changed), 1);
  EXPECT_EQ(missing({said[0], said[0]}, trial(1, "rejected")), 1) << "one stored, two said";
  EXPECT_EQ(missing({}, trial(1, "rejected")), 0);
}

}  // namespace
}  // namespace autotuned::faults
