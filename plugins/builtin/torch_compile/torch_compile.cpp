// SPDX-License-Identifier: Apache-2.0
// Compiles the forward and backward pass of scripts with PyTorch's compiler. Compiling takes up to minutes, which only
// a long remaining training repays.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kCompile = "model.compile";
constexpr const char* kGraphs = "reduce-overhead";
constexpr const char* kSearched = "max-autotune-no-cudagraphs";
// Until something is measured: what compiling takes, and what it saves of the passes that it compiles.
constexpr double kCompileSeconds = 60.0;
constexpr double kSavedShare = 0.2;
// A search among kernels takes several times as long, and adds less.
constexpr double kSearchSeconds = 300.0;
constexpr double kSearchSavedShare = 0.05;
// Below, compiled kernels cannot matter.
constexpr double kMinShare = 0.05;

bool is_permitted_by_name(const Situation& situation) {
  const sdk::Json& named = sdk::member(situation.section("permissions"), "knobs");
  return named.is_array() && std::ranges::any_of(named, [](const sdk::Json& one) {
           return sdk::as<std::string>(one) == kCompile;
         });
}

std::string seconds(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.0f s", value);
  return text;
}

// How long the training still takes at its present rate; nothing if the script does not tell its length.
std::optional<double> seconds_left(const Situation& situation) {
  const auto steps = situation.integer("job", "steps_left");
  const auto step_ns = situation.metric("step.duration_ns");
  if (steps <= 0 || !step_ns) return std::nullopt;
  return static_cast<double>(steps) * *step_ns / 1e9;
}

// Why the mode is not worth its time; empty: it may be.
std::string too_short(const Situation& situation, double saved, double cost_s) {
  if (is_permitted_by_name(situation)) return {};
  const std::optional<double> left = seconds_left(situation);
  if (!left) {
    return "how long the script trains is not known, and compiling takes about " + seconds(cost_s) +
           " (--allow model.compile has it tried)";
  }
  if (*left * saved > cost_s) return {};
  return "compiling takes about " + seconds(cost_s) + ", and would save about " +
         seconds(*left * saved) + " of the " + seconds(*left) + " that the script still trains";
}

Answer propose(const Situation& situation) {
  if (!situation.is_script()) return sdk::none("only modules of scripts are compiled");
  std::string obstacle = situation.obstacle(kCompile);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  const std::string now = situation.incumbent<std::string>(kCompile).value_or("off");
  const auto forward = situation.metric("step.forward_ratio");
  const auto backward = situation.metric("step.backward_ratio");
  const double passes = std::clamp(forward.value_or(0.5) + backward.value_or(0.5), 0.0, 1.0);
  if (passes < kMinShare) {
    return sdk::none("forward and backward pass take only " + sdk::percent(passes) +
                     " of the step");
  }
  Answer answer;
  std::string why_not;
  const auto consider = [&](const char* mode, double saved_share, double cost_s,
                            const std::string& remark) {
    if (now == mode) return;
    std::string reason = situation.obstacle(kCompile, mode);
    const sdk::Json change = {{kCompile, mode}};
    if (reason.empty() && situation.has_lost(change)) reason = "it was tried and was not better";
    if (reason.empty()) reason = too_short(situation, saved_share * passes, cost_s);
    if (!reason.empty()) {
      if (why_not.empty()) why_not = std::move(reason);
      return;
    }
    answer.add(change, situation.expected_gain(change, sdk::gain_without(saved_share * passes)),
               "forward and backward pass take " + sdk::percent(passes) + " of the step" + remark,
               passes, is_permitted_by_name(situation) ? 0.0 : cost_s);
  };
  if (now == "off") {
    consider("default", kSavedShare, kCompileSeconds,
             ", and compiled kernels move less memory than single operators");
  }
  if (situation.is_on_gpu()) {
    consider(kGraphs, kSavedShare, kCompileSeconds, ", and graphs launch compiled kernels at once");
  }
  if (now == "default") {
    consider(kSearched, kSearchSavedShare, kSearchSeconds,
             ", and the compiler can search for its fastest kernels");
  }
  if (!answer.candidates.empty()) return answer;
  return sdk::none(why_not.empty() ? "the modules are already compiled (" + now + ")" : why_not);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("torch_compile", "1.1", "Compiles the modules of a script with torch.compile.",
                 autotuned::plugins::propose);
