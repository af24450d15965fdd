// SPDX-License-Identifier: Apache-2.0
// The configuration that candidates have to beat, and how the run came to it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/configuration.hpp"

namespace autotuned::tuner {

// `kept` with the values of `starting` where it has those of `change`. A variable of the environment that is not set at the start
// becomes empty, which stands for that.
[[nodiscard]] Configuration without_change(Configuration kept, const Configuration& change,
                                           const Configuration& starting);

// A value. References to its configurations hold until it is modified.
class Incumbent {
 public:
  explicit Incumbent(Configuration starting);

  // What is kept so far: the last that was accepted, the starting configuration before any.
  [[nodiscard]] const Configuration& configuration() const {
    return accepted_.empty() ? starting_ : accepted_.back();
  }
  [[nodiscard]] bool is_start() const { return accepted_.empty(); }
  // Each builds on the one before.
  [[nodiscard]] const std::vector<Configuration>& accepted() const { return accepted_; }
  // Those that were the incumbent before.
  [[nodiscard]] const std::vector<Configuration>& past() const { return past_; }
  // How many proposals led from what the search began with to configuration().
  [[nodiscard]] std::size_t standing_proposals() const {
    return accepted_.size() - (verified_ ? 1 : 0);
  }
  // Nothing was added to the remembered configuration that the search went on from.
  [[nodiscard]] bool is_as_verified() const {
    return verified_ && accepted_.size() == 1 && accepted_.back() == *verified_;
  }

  void accept(Configuration faster);
  // Gives up what was accepted last; nothing where nothing was.
  void fall_back();
  // A remembered configuration that was verified comes before all that was accepted.
  void build_on(Configuration verified);
  // Gives a change up, in each configuration that may be fallen back to as well.
  void drop(const Configuration& change);

  [[nodiscard]] Configuration without(const Configuration& change) const {
    return without_change(configuration(), change, starting_);
  }

 private:
  Configuration starting_;
  std::vector<Configuration> accepted_;
  std::vector<Configuration> past_;
  std::optional<Configuration> verified_;
};

}  // namespace autotuned::tuner
