// SPDX-License-Identifier: Apache-2.0
// Proposes matrix products and convolutions in 16 bits if the hardware has units for it. If the check of the updates
// fails because of a few parameters, proposes to keep their modules in 32 bits.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kAutocast = "precision.autocast";
// Below this share the casts cost what the products save.
constexpr double kMinShare = 0.05;
// Where the profile does not say; most networks spend more.
constexpr double kUnknownShare = 0.5;
constexpr const char* kKept = "precision.keep_float32";
// The largest part of the parameters that may fail the check: if more fail, keeping a few modules in 32 bits does not
// help.
constexpr double kMaxFailing = 0.25;

struct Hardware {
  bool has_bf16 = false;
  bool has_fp16 = false;
  double speedup = 1.0;  // of products and convolutions alone, cautiously
  std::string name;      // of what makes it fast, or of what is missing
};

Hardware hardware_of(const Situation& situation) {
  if (situation.is_on_gpu()) {
    const std::optional<sdk::Gpu> gpu = situation.gpu();
    const int major = gpu ? gpu->compute_capability_major : 0;
    if (major >= 8) return {true, true, 2.5, "tensor cores for bf16 (" + gpu->name + ")"};
    if (major == 7) return {false, true, 2.5, "tensor cores for fp16 (" + gpu->name + ")"};
    return {false, false, 1.0, "the GPU has no tensor cores"};
  }
  if (situation.has_cpu_feature("amx_bf16")) return {true, false, 3.0, "AMX-BF16"};
  if (situation.has_cpu_feature("avx512_bf16")) return {true, false, 2.2, "AVX512-BF16"};
  return {false, false, 1.0,
          "this CPU has neither AVX512-BF16 nor AMX-BF16, so 16-bit arithmetic would be emulated"};
}

bool has_choice(const sdk::Knob& knob, const std::string& choice) {
  return std::ranges::find(knob.choices, choice) != knob.choices.end();
}

// What to keep in 32 bits so that the check passes, from the trials of one 16-bit type against the incumbent.
struct Repair {
  std::set<std::string> modules;  // empty: there is nothing to try
  std::size_t parameters = 0;     // that failed so far
  std::int64_t compared = 0;
  double ratio = 1.0;       // that the last such trial reached before its check
  std::string not_because;  // why there is nothing; empty: nothing of the kind was seen
};

Repair no_repair(std::string because) {
  return {.not_because = std::move(because)};
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ",") + name;
  return text;
}

Repair repair_of(const Situation& situation, const std::string& type) {
  const sdk::Json& trials = situation.section("trials");
  if (!trials.is_array()) return {};
  const sdk::Json& incumbent = situation.section("incumbent");
  Repair repair;
  std::set<std::string> failing;
  for (const sdk::Json& trial : trials) {
    const sdk::Json& change = sdk::member(trial, "change");
    if (sdk::member(change, kAutocast) != type || sdk::member(trial, "reference") != incumbent) {
      continue;
    }
    const sdk::Json& check = sdk::member(trial, "check");
    const sdk::Json& parameters = sdk::member(check, "parameters");
    // The trial failed without a check that names parameters: slower, or not finite.
    if (!parameters.is_array() || parameters.empty()) return {};
    for (const sdk::Json& parameter : parameters) {
      const std::string name = sdk::as<std::string>(parameter).value_or("");
      const std::size_t dot = name.rfind('.');
      if (dot == std::string::npos) {
        return no_repair(name +
                         " fails the check and belongs to no module that can stay in 32 bits");
      }
      failing.insert(name);
      repair.modules.insert(name.substr(0, dot));
    }
    repair.compared = sdk::as<std::int64_t>(sdk::member(check, "compared")).value_or(0);
    const auto failed = std::max(static_cast<std::int64_t>(failing.size()),
                                 sdk::as<std::int64_t>(sdk::member(check, "failed")).value_or(0));
    if (static_cast<double>(failed) > kMaxFailing * static_cast<double>(repair.compared)) {
      return no_repair("too many parameters fail the check to keep single modules in 32 bits");
    }
    repair.ratio = sdk::as<double>(sdk::member(trial, "ratio")).value_or(1.0);
  }
  repair.parameters = failing.size();
  if (repair.modules.empty()) return repair;
  std::string obstacle = situation.text("job", "keep_float32_obstacle");
  if (obstacle.empty()) obstacle = situation.obstacle(kKept);
  return obstacle.empty() ? repair : no_repair(std::move(obstacle));
}

// The share of the step that 16 bits can speed up. On a GPU only a trace tells it: the host's time to start kernels
// does not.
std::optional<double> wide_share(const Situation& situation) {
  if (!situation.is_on_gpu()) return situation.metric("operators.gemm_conv_ratio");
  const auto kernels = situation.metric("parts.kernel_ratio");
  const auto of_kernels = situation.metric("operators.gemm_conv_share_ratio");
  if (!kernels || !of_kernels) return std::nullopt;
  return *kernels * *of_kernels;
}

// The finding of the rule `tensor_cores_unused`, as a clause.
std::string unused_clause(const Situation& situation) {
  const bool is_unused =
      situation.metric("kernels.without_tensor_cores_share_ratio").value_or(0.0) > 0.0;
  return is_unused ? " without tensor cores" : "";
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kAutocast);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  const auto now = situation.incumbent<std::string>(kAutocast);
  if (now && *now != "off") return sdk::none("the job already computes in " + *now);
  const Hardware hardware = hardware_of(situation);
  if (!hardware.has_bf16 && !hardware.has_fp16) return sdk::none(hardware.name);

  const auto share = wide_share(situation);
  if (share && *share < kMinShare) {
    return sdk::none("matrix products and convolutions take only " + sdk::percent(*share) +
                     " of the step");
  }
  const double saved = share.value_or(kUnknownShare) * (1.0 - 1.0 / hardware.speedup);
  const std::string evidence =
      share
          ? "matrix products and convolutions in 32 bits take " + sdk::percent(*share) +
                " of the step" + unused_clause(situation) + ", and the machine has " + hardware.name
          : "the machine has " + hardware.name;
  Answer answer;
  std::string why_not_kept;
  const auto consider = [&](const char* type, const char* remark) {
    if (!has_choice(*situation.knob(kAutocast), type)) return;
    const sdk::Json change = {{kAutocast, type}};
    if (!situation.has_lost(change)) {
      answer.add(change, situation.expected_gain(change, sdk::gain_without(saved)),
                 evidence + remark);
      return;
    }
    const Repair repair = repair_of(situation, type);
    if (!repair.not_because.empty()) why_not_kept = "; " + repair.not_because;
    const sdk::Json kept = {{kAutocast, type}, {kKept, listed(repair.modules)}};
    if (repair.modules.empty() || situation.has_lost(kept)) return;
    answer.add(kept, situation.expected_gain(kept, std::max(1.0, repair.ratio)),
               std::string(type) + " failed its check in " + std::to_string(repair.parameters) +
                   " of " + std::to_string(repair.compared) + " parameters, so " +
                   listed(repair.modules) + " would stay in 32 bits" + remark);
  };
  // bf16 has the range of float32 and needs no loss scaling, so fp16 only where it is missing or lost.
  if (hardware.has_bf16) consider("bf16", "");
  if (hardware.has_fp16) consider("fp16", "; the loss is scaled");
  if (answer.candidates.empty()) {
    return sdk::none("16-bit arithmetic was tried and was not better" + why_not_kept);
  }
  return answer;
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("amp", "1.1", "Computes matrix products and convolutions in 16 bits.",
                 autotuned::plugins::propose);
