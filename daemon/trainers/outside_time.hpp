// SPDX-License-Identifier: Apache-2.0
// Detects time that the blocks of an extension leave out: work that its threads do after the block, or a wrong clock.
//
// A trainer reports how long a block took. Whoever asked for it saw more time pass until the trainer was at rest again: a
// little, for both configurations of a trial alike. A gain has to be seen in that time, too: over all blocks of the trial, the
// ratio of the rates by it must show half of the logarithm of the gain that the trainer reports. This is asked only if the
// two configurations differ in an extension's knob: what our own trainer does between blocks, such as dropping batches that
// were loaded, may take long and is no work of an extension. What a switch to the next configuration does is not seen: to
// capture a graph is no cheat, and its time is charged elsewhere (tuner/one_time_cost.hpp).
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/configuration.hpp"
#include "base/trial.hpp"

namespace autotuned::daemon {

class OutsideTime {
 public:
  explicit OutsideTime(std::vector<std::string> extension_knobs)
      : extension_knobs_(std::move(extension_knobs)) {}

  // Adds a block that took `seen` by our clock. For a candidate, returns why its blocks are not credible beside those
  // of the reference that they alternate with; nothing if they are, or if there are too few to tell. A reference is
  // never refused: it claims no gain.
  std::optional<std::string> add(const Configuration& configuration, bool is_candidate,
                                 const Block& block, std::chrono::nanoseconds seen);

 private:
  struct Taken {
    double samples = 0.0;
    double reported_ns = 0.0;
    double seen_ns = 0.0;  // from the request until the trainer was at rest again
  };
  // All samples over all time, in samples per second.
  struct Totals {
    double reported_rate = 0.0;
    double seen_rate = 0.0;
  };
  struct Arm {
    Configuration configuration;
    std::vector<Taken> blocks;  // of the present trial

    [[nodiscard]] Totals totals() const;
    // What each block left out, over what it reported.
    [[nodiscard]] std::vector<double> outside() const;
  };
  std::vector<std::string> extension_knobs_;
  std::array<Arm, 2> arms_;  // the arm that ran last comes first
};

}  // namespace autotuned::daemon
