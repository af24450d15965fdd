// SPDX-License-Identifier: Apache-2.0
#include "tuner/ceiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace autotuned::tuner {
namespace {

constexpr double kWaitAtCeiling = 0.02;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Measured {
  double own_samples_per_second = 0.0;  // 0: the job could not tell
  std::map<std::string_view, double> ratios;
};

// A rung that fails is left out: this trainer does not know it, or it would be the same as another.
Result<Measured> measure(Job& job, const Configuration& configuration,
                         std::vector<std::string_view> rungs, int pairs) {
  std::vector<double> own;
  std::map<std::string_view, std::vector<double>> ratios;
  for (int i = 0; i < pairs && !rungs.empty(); ++i) {
    const auto normal = job.run_block(configuration, {});
    if (!normal) return tl::unexpected(normal.error());
    const double rate = normal->samples_per_second();
    if (!(rate > 0.0)) return Measured{};
    own.push_back(rate);
    for (std::size_t at = 0; at < rungs.size();) {
      const auto block = job.run_block(configuration, {.reuse = std::string(rungs[at])});
      if (!block && block.error().kind == ErrorKind::cancelled) {
        return tl::unexpected(block.error());
      }
      const double free_rate = block ? block->samples_per_second() : 0.0;
      if (free_rate > 0.0) {
        ratios[rungs[at++]].push_back(free_rate / rate);
      } else {
        ratios.erase(rungs[at]);
        rungs.erase(rungs.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
  Measured measured;
  if (!own.empty()) measured.own_samples_per_second = median(std::move(own));
  for (auto& [rung, values] : ratios)
    measured.ratios[rung] = median(std::move(values));
  return measured;
}

// Which part of the input a knob is about: the place in kRungs of the lowest rung that frees the
// step of it.
struct Part {
  std::size_t rung = 0;
  bool is_transfer = false;  // and of nothing below
};

std::optional<Part> part_of(const std::string& name, const KnobValue& value) {
  constexpr std::size_t kReading = 0;
  constexpr std::size_t kMaking = 1;
  constexpr std::size_t kLoading = 2;
  constexpr std::size_t kTransfer = 3;
  if (name == "input.read_ahead" || (name == "input.cache" && to_text(value) == "raw")) {
    return Part{kReading};
  }
  if (name == "loader.pin_memory" || name == "transfer.non_blocking") return Part{kTransfer, true};
  if (name.starts_with("input.")) return Part{kMaking};
  if (name.starts_with("loader.")) return Part{kLoading};
  // Where samples travel as bytes they are made otherwise, too.
  if (name.starts_with("transfer.")) return Part{kTransfer};
  return std::nullopt;
}

struct Words {
  const char* about;
  const char* free;  // when the step is free of it
};
constexpr std::array<Words, kRungs.size()> kWords = {{
    {"reading", "with its files in memory"},
    {"making samples", "with ready samples in memory"},
    {"loading", "without any loading"},
    {"loading and transfer", "with its batches on the device"},
}};
constexpr Words kTransferWords = {"transfer", "with its batches on the device rather than ready"};

double number_or(const Json& metrics, const char* name, double otherwise) {
  return get_number(metrics, name).value_or(otherwise);
}

}  // namespace

std::optional<double> Ceiling::ratio_of(std::string_view rung) const {
  const auto found = std::ranges::find(rungs, rung, &Rung::name);
  if (found == rungs.end()) return std::nullopt;
  return found->ratio;
}

Result<Ceiling> measure_ceiling(Job& job, const Configuration& configuration,
                                const CeilingPlan& plan) {
  Ceiling ceiling{.samples_per_second = 0.0, .bound_by = "unknown"};
  const auto highest = measure(job, configuration, {kDeviceBatch}, plan.pairs);
  if (!highest) return tl::unexpected(highest.error());
  if (highest->ratios.empty()) return ceiling;
  const double most = std::max(1.0, highest->ratios.at(kDeviceBatch));
  ceiling.samples_per_second = most * highest->own_samples_per_second;
  ceiling.bound_by = "compute";
  if (most > kAtCeiling && plan.rung_pairs > 0) {
    const std::vector<std::string_view> others(kRungs.begin(), kRungs.end() - 1);
    const auto lower = measure(job, configuration, others, plan.rung_pairs);
    if (!lower) return tl::unexpected(lower.error());
    double below = 1.0;
    for (const std::string_view rung : others) {
      const auto found = lower->ratios.find(rung);
      if (found == lower->ratios.end()) continue;
      below = std::clamp(found->second, below, most);
      ceiling.rungs.push_back({.name = std::string(rung), .ratio = below});
    }
  }
  ceiling.rungs.push_back({.name = std::string(kDeviceBatch), .ratio = most});
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
  // On a GPU a trace knows which waits hide behind kernels.
  loading = number_or(metrics, "parts.data_loading_ratio", *loading);
  metrics["loader.cost_ratio"] = *loading;
  if (ceiling.rungs.empty()) return;
  // Where a batch is used in place, one on the device is free of no more than that.
  const auto host = ceiling.ratio_of(kHostBatch);
  const double ready =
      host ? 1.0 / *host : 1.0 / ceiling.ratio() + number_or(metrics, "step.transfer_ratio", 0.0);
  metrics["loader.cost_ratio"] = std::max(*loading, 1.0 - ready);
}

std::optional<std::string> why_at_ceiling(const Configuration& change, const Ceiling& ceiling,
                                          const Json& metrics) {
  if (ceiling.rungs.empty() || change.values().empty()) return std::nullopt;
  Part part{.rung = 0, .is_transfer = true};
  for (const auto& [name, value] : change.values()) {
    const auto one = part_of(name, value);
    if (!one) return std::nullopt;
    part.rung = std::max(part.rung, one->rung);
    part.is_transfer = part.is_transfer && one->is_transfer;
  }
  // Where that rung was not measured, the next one that was frees the step of more.
  std::optional<double> ratio;
  std::size_t rung = part.rung;
  for (; rung < kRungs.size(); ++rung) {
    ratio = ceiling.ratio_of(kRungs[rung]);
    if (ratio) break;
  }
  if (!ratio) return std::nullopt;

  // On a GPU a trace knows which waits hide behind kernels.
  const double waiting = number_or(metrics, "parts.data_loading_ratio",
                                   number_or(metrics, "step.data_wait_ratio", 0.0));
  Words words = kWords[rung];
  words.about = kWords[part.rung].about;
  double evidence = rung == 0 ? waiting * number_or(metrics, "input.read_ratio", 1.0) : waiting;
  if (part.is_transfer) {
    words.about = kTransferWords.about;
    if (const auto below = ceiling.ratio_of(kRungs[part.rung - 1])) {
      words = kTransferWords;
      *ratio /= *below;
      evidence = number_or(metrics, "step.transfer_ratio", 0.0);
    }
  }
  if (*ratio > kAtCeiling || evidence > kWaitAtCeiling) return std::nullopt;
  return fmt::format("{} is about {}, and {} the job would be {:.1f} % faster",
                     change.canonical_text(), words.about, words.free, (*ratio - 1.0) * 100.0);
}

}  // namespace autotuned::tuner
