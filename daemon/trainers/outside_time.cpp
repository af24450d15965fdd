// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/outside_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "daemon/common/trainer_plugins.hpp"

namespace autotuned::daemon {
namespace {

// A verdict takes seven pairs at least: the candidate is refused before it can be accepted.
constexpr std::size_t kFewestBlocks = 6;
constexpr double kShareOfGain = 0.5;       // of the logarithm of the gain
constexpr double kAlwaysTolerated = 0.01;  // of that of the ratio
// Looked at after every block, from six on: two would refuse one honest candidate of ten on a busy machine.
constexpr double kErrors = 4.0;  // standard errors

// The standard error of the mean.
double error_of(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  double mean = 0.0;
  for (const double value : values)
    mean += value / n;
  double square_error = 0.0;
  for (const double value : values)
    square_error += (value - mean) * (value - mean) / (n * (n - 1.0));
  return std::sqrt(square_error);
}

}  // namespace

std::optional<std::string> OutsideTime::add(const Configuration& configuration, bool is_candidate,
                                            const Block& block, std::chrono::nanoseconds seen) {
  if (arms_[0].configuration != configuration) {
    std::swap(arms_[0], arms_[1]);
    if (arms_[0].configuration != configuration) {
      arms_[0] = Arm{configuration, {}};
      // Another trial: of the other one's blocks, the last may be of it.
      std::vector<Taken>& others = arms_[1].blocks;
      if (others.size() > 1) others.erase(others.begin(), others.end() - 1);
    }
  }
  if (block.duration_ns <= 0) return std::nullopt;
  arms_[0].blocks.push_back({static_cast<double>(block.samples),
                             static_cast<double>(block.duration_ns),
                             static_cast<double>(seen.count())});

  if (!is_candidate) return std::nullopt;
  const Arm& arm = arms_[0];
  const Arm& other = arms_[1];
  if (std::min(arm.blocks.size(), other.blocks.size()) < kFewestBlocks) return std::nullopt;
  if (!differ_in_extensions(extension_knobs_, arm.configuration, other.configuration)) {
    return std::nullopt;
  }
  const Totals totals = arm.totals();
  const Totals other_totals = other.totals();
  const double reported = std::log(totals.reported_rate / other_totals.reported_rate);
  const double shown = std::log(totals.seen_rate / other_totals.seen_rate);
  if (!(reported > 0.0)) return std::nullopt;
  // The noise of the machine is taken from the reference alone: a candidate could make its own spread as wide as it
  // needs.
  const double noise = kErrors * std::sqrt(2.0) * error_of(other.outside());
  if (reported - shown - noise <= std::max(kAlwaysTolerated, kShareOfGain * reported)) {
    return std::nullopt;
  }
  return fmt::format(
      "the session's clock does not confirm the gain: the trainer reports that its {} blocks "
      "together are {:.1f} % faster than those of the other configuration, but by the session's "
      "clock, which runs until the trainer is at rest again, they are {:.1f} % {}: the trainer "
      "does work after or between its blocks, or its clock is wrong",
      arm.blocks.size(), 100.0 * std::expm1(reported), 100.0 * std::abs(std::expm1(shown)),
      shown < 0.0 ? "slower" : "faster");
}

OutsideTime::Totals OutsideTime::Arm::totals() const {
  Taken sum;
  for (const Taken& block : blocks) {
    sum.samples += block.samples;
    sum.reported_ns += block.reported_ns;
    sum.seen_ns += block.seen_ns;
  }
  return {sum.samples / sum.reported_ns, sum.samples / sum.seen_ns};
}

std::vector<double> OutsideTime::Arm::outside() const {
  std::vector<double> shares;
  for (const Taken& block : blocks)
    shares.push_back(block.seen_ns / block.reported_ns - 1.0);
  return shares;
}

}  // namespace autotuned::daemon
