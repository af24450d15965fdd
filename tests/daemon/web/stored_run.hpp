// SPDX-License-Identifier: Apache-2.0
// The run of record_sample.hpp in a history of its own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>
#include <vector>

#include "storage/history.hpp"
#include "tests/daemon/report/record_sample.hpp"

namespace autotuned::daemon {

// As the list of a profile has them.
inline std::vector<FindingRecord> stored_findings(const Json& profile) {
  std::vector<FindingRecord> findings;
  for (const Json& finding : profile.at("findings")) {
    const auto word = [&](const char* field) { return get_string(finding, field).value_or(""); };
    findings.push_back({.id = word("id"),
                        .signal = word("signal"),
                        .value = get_number(finding, "value").value_or(0.0),
                        .threshold = get_number(finding, "threshold").value_or(0.0),
                        .is_below = word("fires") == "under",
                        .evidence = word("evidence"),
                        .plugin = word("plugin"),
                        .knob = word("knob"),
                        .advice = word("advice"),
                        .severity = word("severity"),
                        .gain = word("gain"),
                        .code = word("code")});
  }
  return findings;
}

// Also two pairs of blocks of the first trial, the second of which lacks its candidate.
inline void store(const RunRecord& record, const std::filesystem::path& file) {
  auto history = storage::History::open(file, storage::Access::read_write);
  ASSERT_TRUE(history) << history.error().message();
  storage::RunRow run = record.run;
  run.recipe_hash = "h1";
  run.environment_key = "e1";
  ASSERT_TRUE(history->put_environment(*record.environment));
  ASSERT_TRUE(history->put_recipe({"h1", run.recipe_name, "", run.recipe}));
  ASSERT_TRUE(history->put_run(run));
  ASSERT_TRUE(history->put_ceiling(run.id, run.ceiling_samples_per_second, run.ceiling_bound_by,
                                   run.ceiling_ladder));
  for (const TrialRecord& trial : record.trials)
    ASSERT_TRUE(history->put_trial(run.id, trial));
  for (const auto& [number, checks] : record.checks) {
    for (const CheckRecord& check : checks)
      ASSERT_TRUE(history->put_check({run.id, number}, check));
  }
  for (const auto& [pair, is_candidate, rate] :
       {std::tuple(1, false, 1000), std::tuple(1, true, 1250), std::tuple(2, false, 1000)}) {
    TrialBlock block;
    block.pair = pair;
    block.is_candidate = is_candidate;
    block.is_first = !is_candidate;
    block.block.duration_ns = 1'000'000'000;
    block.block.steps = 10;
    block.block.samples = rate;
    ASSERT_TRUE(history->put_block({run.id, 1}, block));
  }
  for (const Json& profile : record.profiles) {
    const auto configuration = Configuration::from_json(profile.at("configuration"));
    ASSERT_TRUE(configuration);
    ASSERT_TRUE(history->put_profile(run.id, *configuration, profile.at("metrics"),
                                     profile.at("spans"), profile.at("operators"), 1,
                                     stored_findings(profile)));
  }
}

}  // namespace autotuned::daemon
