// SPDX-License-Identifier: Apache-2.0
#include "tuner/ceiling.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/statistics.hpp"

namespace autotuned::tuner {
namespace {

constexpr std::string_view kOwn = "";  // nothing is kept

struct Measured {
  double own_samples_per_second = 0.0;  // 0: not measured
  std::map<std::string_view, RungGain> gains;
};

// A block of the job as it is. If another trainer has spoilt it, the next one runs alone.
Result<Block> own_block(TrainingBackend& backend, const Configuration& configuration) {
  auto block = backend.run_block(configuration, {});
  if (block || block.error().kind == ErrorKind::cancelled) return block;
  return backend.run_block(configuration, {});
}

// A disturbance says nothing about the rung. The first one is made good.
Result<Block> rung_block(TrainingBackend& backend, const Configuration& configuration,
                         std::string_view rung, bool& may_repeat) {
  const BlockRequest request{.reuse = std::string(rung)};
  auto block = backend.run_block(configuration, request);
  if (block || !block.error().is_disturbance || !std::exchange(may_repeat, false)) return block;
  return backend.run_block(configuration, request);
}

// A rung that fails is left out: the trainer does not support it, or it would be the same as another.
Result<Measured> measure(TrainingBackend& backend, const Configuration& configuration,
                         std::vector<std::string_view> rungs, int pairs, bool may_repeat) {
  std::vector<double> own;
  std::map<std::string_view, std::vector<double>> ratios;
  for (int i = 0; i < pairs && !rungs.empty(); ++i) {
    std::vector<std::string_view> order = {kOwn};
    order.insert(order.end(), rungs.begin(), rungs.end());
    if (i % 2 == 1) std::ranges::reverse(order);
    std::map<std::string_view, double> rates;
    for (const std::string_view kept : order) {
      const auto block = kept == kOwn ? own_block(backend, configuration)
                                      : rung_block(backend, configuration, kept, may_repeat);
      if (!block && (kept == kOwn || block.error().kind == ErrorKind::cancelled)) {
        return forward_error(block);
      }
      rates[kept] = block ? block->samples_per_second() : 0.0;
    }
    const double rate = rates.at(kOwn);
    if (!(rate > 0.0)) return Measured{};
    own.push_back(rate);
    std::erase_if(rungs, [&](std::string_view rung) { return !(rates.at(rung) > 0.0); });
    for (const std::string_view rung : rungs)
      ratios[rung].push_back(rates.at(rung) / rate);
  }
  Measured measured;
  if (!own.empty()) measured.own_samples_per_second = median(std::move(own));
  for (const std::string_view rung : rungs)
    measured.gains[rung] = gain_of(std::move(ratios[rung]));
  return measured;
}

double number_or(const Json& metrics, const char* name, double otherwise) {
  return get_number(metrics, name).value_or(otherwise);
}

}  // namespace

RungGain gain_of(std::vector<double> ratios) {
  return {.least_ratio = std::ranges::min(ratios), .likely_ratio = median(ratios)};
}

std::optional<double> Ceiling::ratio_of(std::string_view rung) const {
  const auto found = std::ranges::find(rungs, rung, &Rung::name);
  if (found == rungs.end()) return std::nullopt;
  return found->ratio;
}

std::optional<double> Ceiling::likely_ratio_of(std::string_view rung) const {
  const auto found = std::ranges::find(rungs, rung, &Rung::name);
  if (found == rungs.end()) return std::nullopt;
  return found->likely_ratio;
}

Result<Ceiling> measure_ceiling(TrainingBackend& backend, const Configuration& configuration,
                                const CeilingPlan& plan) {
  Ceiling ceiling{.samples_per_second = 0.0, .bound_by = "unknown"};
  const auto highest =
      measure(backend, configuration, {kDeviceBatch}, plan.pairs, plan.repeats_disturbed);
  if (!highest) return forward_error(highest);
  if (highest->gains.empty()) return ceiling;
  const RungGain gain = highest->gains.at(kDeviceBatch);
  const Rung most{.name = std::string(kDeviceBatch),
                  .ratio = std::max(1.0, gain.least_ratio),
                  .likely_ratio = std::max(1.0, gain.likely_ratio)};
  ceiling.samples_per_second = most.ratio * highest->own_samples_per_second;
  ceiling.bound_by = "compute";
  if (most.likely_ratio > kAtCeiling && plan.rung_pairs > 0) {
    const std::vector<std::string_view> others(kRungs.begin(), kRungs.end() - 1);
    const auto lower =
        measure(backend, configuration, others, plan.rung_pairs, plan.repeats_disturbed);
    if (!lower) return forward_error(lower);
    Rung below;
    for (const std::string_view rung : others) {
      const auto found = lower->gains.find(rung);
      if (found == lower->gains.end()) continue;
      below = {.name = std::string(rung),
               .ratio = std::clamp(found->second.least_ratio, below.ratio, most.ratio),
               .likely_ratio =
                   std::clamp(found->second.likely_ratio, below.likely_ratio, most.likely_ratio)};
      ceiling.rungs.push_back(below);
    }
  }
  ceiling.rungs.push_back(most);
  return ceiling;
}

Ceiling ceiling_above(Ceiling ceiling, double samples_per_second) {
  if (ceiling.rungs.empty() || !(samples_per_second > 0.0)) return ceiling;
  const double own_samples_per_second = ceiling.samples_per_second / ceiling.ratio();
  for (Rung& rung : ceiling.rungs) {
    rung.ratio =
        std::clamp(rung.ratio * own_samples_per_second / samples_per_second, 1.0, rung.ratio);
  }
  ceiling.samples_per_second = ceiling.ratio() * samples_per_second;
  return ceiling;
}

Json ladder_json(const Ceiling& ceiling) {
  Json ladder = Json::array();
  for (const Rung& rung : ceiling.rungs) {
    ladder.push_back(
        {{"rung", rung.name},
         {"samples_per_second", ceiling.samples_per_second * rung.ratio / ceiling.ratio()},
         {"reached_ratio", 1.0 / rung.ratio}});
  }
  return ladder;
}

void add_ceiling_metrics(const Ceiling& ceiling, Json& metrics) {
  for (const Rung& rung : ceiling.rungs)
    metrics["ceiling." + rung.name + "_ratio"] = 1.0 / rung.ratio;
  auto loading = get_number(metrics, "loader.cost_ratio");
  if (!loading) return;
  // On a GPU only a trace shows which waits overlap with kernels.
  loading = number_or(metrics, "parts.data_loading_ratio", *loading);
  metrics["loader.cost_ratio"] = *loading;
  if (ceiling.rungs.empty()) return;
  // If batches are used in place, a batch on the device saves no more than one on the host.
  const auto host = ceiling.ratio_of(kHostBatch);
  const double ready =
      host ? 1.0 / *host : 1.0 / ceiling.ratio() + number_or(metrics, "step.transfer_ratio", 0.0);
  metrics["loader.cost_ratio"] = std::max(*loading, 1.0 - ready);
}

}  // namespace autotuned::tuner
