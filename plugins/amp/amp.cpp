// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions in 16 bit, where the hardware has units for it.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kAutocast = "precision.autocast";
// Below this share the casts cost what the products save.
constexpr double kLeastShare = 0.05;
// Where the profile does not say; most networks spend more.
constexpr double kUnknownShare = 0.5;

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

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kAutocast);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  const auto now = situation.incumbent<std::string>(kAutocast);
  if (now && *now != "off") return sdk::none("the job computes in " + *now + " already");
  const Hardware hardware = hardware_of(situation);
  if (!hardware.has_bf16 && !hardware.has_fp16) return sdk::none(hardware.name);

  const auto share = situation.metric("operators.gemm_conv_ratio");
  if (share && *share < kLeastShare) {
    return sdk::none("matrix products and convolutions take only " + sdk::percent(*share) +
                     " of the step");
  }
  const double saved = share.value_or(kUnknownShare) * (1.0 - 1.0 / hardware.speedup);
  const std::string evidence = share ? "matrix products and convolutions in 32 bit take " +
                                           sdk::percent(*share) + " of the step, and there is " +
                                           hardware.name
                                     : "there is " + hardware.name;
  Answer answer;
  const auto consider = [&](const char* type, const char* remark) {
    const sdk::Json change = {{kAutocast, type}};
    if (!has_choice(*situation.knob(kAutocast), type) || situation.has_lost(change)) return;
    answer.add(change, situation.expected_gain(change, sdk::gain_without(saved)),
               evidence + remark);
  };
  // bf16 has the range of float32 and needs no loss scaling, so fp16 only where it is missing or lost.
  if (hardware.has_bf16) consider("bf16", "");
  if (hardware.has_fp16) consider("fp16", "; the loss is scaled");
  if (answer.candidates.empty()) return sdk::none("16 bit was tried and was not better");
  return answer;
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("amp", "1.0", "Computes matrix products and convolutions in 16 bit.",
                 autotuned::plugins::propose);
