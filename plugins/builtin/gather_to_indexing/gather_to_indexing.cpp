// SPDX-License-Identifier: Apache-2.0
// A gather whose index is the same along the rest of a row copies whole rows. LibTorch reads an index per
// element, and adds up the gradient element by element, on one thread.
#include <optional>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kRewrite = "rewrite.gather";
constexpr const char* kSignal = "operators.gather_share_ratio";
// The least share of gather in a step: less would be lost in the noise of any machine.
constexpr double kMinShare = 0.005;
// The part of the time that row selection saves, as measured in docs/benchmarks.md.
constexpr double kSavedShare = 0.6;

// The share of gather in the step. On a GPU it is taken from a trace: the host's time need not agree with that of the
// kernels.
std::optional<double> gather_share(const Situation& situation) {
  const auto of_kernels = situation.metric(kSignal);
  const auto kernels = situation.metric("parts.kernel_ratio");
  if (situation.is_on_gpu() && of_kernels && kernels) return *of_kernels * *kernels;
  return situation.metric("operators.gather_ratio");
}

// A clause with the module whose backward pass becomes faster, if a trace knows it.
std::string place_clause(const Situation& situation) {
  const auto place = situation.place(kSignal);
  if (!place) return {};
  return ", " + sdk::percent(place->share_ratio) + " of it in " + place->module;
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kRewrite);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<std::string>(kRewrite) == "indexing") {
    return sdk::none("gather already selects whole rows");
  }
  const bool is_deterministic =
      sdk::as<bool>(sdk::member(situation.section("recipe"), "deterministic")).value_or(false);
  if (situation.is_on_gpu() && !is_deterministic) {
    return sdk::none(
        "on a GPU gather is faster than row selection, unless all algorithms must be "
        "deterministic");
  }
  const auto share = gather_share(situation);
  if (!share) return sdk::none("the profile does not say what gather costs");
  if (*share == 0.0) return sdk::none("the job does not use gather");
  if (*share < kMinShare) {
    return sdk::none("gather and its backward take only " + sdk::percent(*share) + " of the step");
  }
  const sdk::Json change = {{kRewrite, "indexing"}};
  if (situation.has_lost(change)) {
    return sdk::none("row selection instead of gather was tried and was not faster");
  }
  return sdk::propose_one(change,
                          situation.expected_gain(change, sdk::gain_without(*share * kSavedShare)),
                          "gather and its backward take " + sdk::percent(*share) + " of the step" +
                              place_clause(situation) +
                              "; if the index is the same along a row, copying whole rows gives "
                              "the same bits in less time",
                          *share);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("gather_to_indexing", "1.1",
                 "Replaces gather by copies of whole rows where its index selects rows.",
                 autotuned::plugins::propose);
