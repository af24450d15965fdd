// SPDX-License-Identifier: Apache-2.0
// Data that was 8-bit need not become float before it travels to the device.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kType = "transfer.dtype";
// A quarter of the bytes remains.
constexpr double kSavedBytes = 0.75;
// Part of preparing a sample that is the conversion; a guess, and small where the CPU also trains.
constexpr double kConversionShare = 0.3;
constexpr double kBusyRatio = 0.9;

// The share of the step that conversion in the loader takes from the training, if both need the same CPUs.
double taken_from_training(const Situation& situation) {
  const auto sample = situation.metric("loader.sample_ns");
  const auto samples = situation.metric("step.samples");
  const auto step = situation.metric("step.duration_ns");
  const bool is_busy = situation.metric("cpu.utilization_ratio").value_or(1.0) > kBusyRatio;
  if (!is_busy || !sample || !samples || !step || *step <= 0.0) return 0.0;
  const auto cpus = static_cast<double>(std::max<std::int64_t>(1, situation.cpus_allowed()));
  return kConversionShare * *sample * *samples / (*step * cpus);
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kType);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<std::string>(kType) == "uint8") {
    return sdk::none("batches are already transferred as uint8");
  }
  const auto share = situation.metric("loader.float_from_uint8_ratio");
  if (!share) return sdk::none("the profile does not say which type the stored data has");
  if (*share < 0.999) return sdk::none("the samples are not 8-bit data converted to floats");
  const sdk::Json change = {{kType, "uint8"}};
  if (situation.has_lost(change)) return sdk::none("uint8 was tried and was not faster");

  // Where a trace saw the copies, it knows better than the host how long they take.
  const double transfer =
      situation.first_metric({"copies.host_to_device_ratio", "step.transfer_ratio"}).value_or(0.0);
  const double wait =
      situation.first_metric({"parts.data_loading_ratio", "step.data_wait_ratio"}).value_or(0.0);
  const double saved =
      std::min(1.0, transfer * kSavedBytes + wait * kConversionShare +
                        (situation.is_on_gpu() ? 0.0 : taken_from_training(situation)));
  std::string reason = "the samples are 8-bit data";
  if (const auto bytes = situation.metric("transfer.bytes_per_step"); bytes && *bytes > 0.0) {
    reason += ", but each step transfers " + format_bytes(std::llround(*bytes)) + " of floats";
  } else {
    reason += " that is transferred as floats";
  }
  reason += " (" + sdk::percent(transfer) + " of the step copying, " + sdk::percent(wait) +
            " waiting for data); uint8 needs a quarter of the bytes";
  return sdk::propose_one(change, situation.expected_gain(change, sdk::gain_without(saved)),
                          std::move(reason), saved);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("uint8_transfer", "1.1",
                 "Transfers 8-bit data as bytes and converts it on the device.",
                 autotuned::plugins::propose);
