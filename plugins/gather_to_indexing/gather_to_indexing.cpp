// SPDX-License-Identifier: Apache-2.0
// A gather whose index is the same along the rest of a row copies whole rows. LibTorch reads an index per
// element, and adds up the gradient element by element, on one thread.
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kRewrite = "rewrite.gather";
// Of less, what is saved is lost in the noise of any machine: a trial would only cost its time.
constexpr double kLeastShare = 0.005;
// What row selection saves of the time, where it applies: measured, docs/benchmarks.md.
constexpr double kSavedShare = 0.6;

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kRewrite);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<std::string>(kRewrite) == "indexing") {
    return sdk::none("gather selects whole rows already");
  }
  const auto share = situation.metric("operators.gather_ratio");
  if (!share) return sdk::none("the profile does not say what gather costs");
  if (*share == 0.0) return sdk::none("the job does not use gather");
  if (*share < kLeastShare) {
    return sdk::none("gather and its backward take only " + sdk::percent(*share) + " of the step");
  }
  const sdk::Json change = {{kRewrite, "indexing"}};
  if (situation.has_lost(change)) {
    return sdk::none("selecting rows instead of gather was tried and was not faster");
  }
  return sdk::propose_one(
      change, situation.expected_gain(change, sdk::gain_without(*share * kSavedShare)),
      "gather and its backward take " + sdk::percent(*share) +
          " of the step; where the index is the same along a row, copying whole rows gives the "
          "same bits in less time",
      *share);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("gather_to_indexing", "1.0",
                 "Copies whole rows where gather would read an index per element.",
                 autotuned::plugins::propose);
