// SPDX-License-Identifier: Apache-2.0
// A job whose comparisons are recorded, and a change that is checked with them.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/tuner/simulation.hpp"
#include "tuner/checks.hpp"

namespace autotuned::tuner {

// Which comparisons are asked of the job, and what is made of them.
class RunChecks : public testing::Test {
 protected:
  struct Asked {
    Configuration reference;
    Configuration candidate;
    std::int64_t steps;
  };

  RunChecks() {
    job_.updates = [this](const Configuration& reference, const Configuration& candidate,
                          std::int64_t steps) {
      asked_.push_back({reference, candidate, steps});
      UpdateComparison updates = SimulatedBackend::equal(steps);
      updates.equal = is_equal_;
      return updates;
    };
  }

  std::vector<CheckRecord> run(const Configuration& change) {
    auto checks = run_checks(input_, job_, incumbent_, change);
    EXPECT_TRUE(checks);
    return *checks;
  }

  // An extension with a knob of that class.
  void add_extension(recipes::RiskClass risk) {
    recipes::Knob knob;
    knob.name = "mine.skip";
    knob.default_value = false;
    knob.risk = risk;
    input_.knobs.push_back(knob);
    input_.extension_knobs.push_back(knob.name);
    input_.starting.set(knob.name, false);
    incumbent_.set(knob.name, false);
  }

  static Configuration change(const std::string& knob, const KnobValue& value) {
    Configuration change;
    change.set(knob, value);
    return change;
  }

  FakeClock clock_;
  SimulatedBackend job_{clock_};
  SessionInput input_ = simulated_input();
  Configuration incumbent_ = input_.starting.with(change("optimizer.fused", true));
  bool is_equal_ = true;
  std::vector<Asked> asked_;
};

}  // namespace autotuned::tuner
