// SPDX-License-Identifier: Apache-2.0
// The configuration that candidates must beat, and the accepted changes that led to it.
#pragma once

#include <optional>
#include <vector>

#include "base/configuration.hpp"

namespace autotuned::tuner {

// Returns `kept` without `change`: knobs that have their values of `change` get their values in `before`. An environment variable that
// `before` does not name is removed, so that the trainer has the user's value.
[[nodiscard]] Configuration without_change(Configuration kept, const Configuration& change,
                                           const Configuration& before);

// The incumbent and its history. A value type. References to its configurations are valid until it is modified.
class Incumbent {
 public:
  explicit Incumbent(Configuration starting);

  // The configuration that is kept so far: the last accepted configuration, or the starting one.
  [[nodiscard]] const Configuration& configuration() const {
    return accepted_.empty() ? starting_ : accepted_.back();
  }
  [[nodiscard]] bool is_start() const { return accepted_.empty(); }
  // The accepted configurations, oldest first. Each contains the one before.
  [[nodiscard]] const std::vector<Configuration>& accepted() const { return accepted_; }
  // The configurations that were the incumbent earlier.
  [[nodiscard]] const std::vector<Configuration>& past() const { return past_; }
  // Whether configuration() is the verified stored one, with nothing added.
  [[nodiscard]] bool is_as_verified() const {
    return verified_ && accepted_.size() == 1 && accepted_.back() == *verified_;
  }

  void accept(Configuration faster);
  // Drops the last accepted change; does nothing if there is none.
  void fall_back();
  // Inserts a stored and verified configuration before all accepted ones.
  void build_on(Configuration verified);
  // Drops `change` from configuration() and from every configuration that fall_back() could return to: its knobs get their values in
  // `before` again.
  void drop(const Configuration& change, const Configuration& before);

 private:
  Configuration starting_;
  std::vector<Configuration> accepted_;
  std::vector<Configuration> past_;
  std::optional<Configuration> verified_;
};

}  // namespace autotuned::tuner
