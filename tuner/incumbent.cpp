// SPDX-License-Identifier: Apache-2.0
#include "tuner/incumbent.hpp"

#include <utility>

namespace autotuned::tuner {

Configuration without_change(Configuration kept, const Configuration& change,
                             const Configuration& before) {
  for (const auto& [name, value] : change.values()) {
    const KnobValue* const now = kept.find(name);
    if (now == nullptr || *now != value) continue;
    if (const KnobValue* const earlier = before.find(name)) {
      kept.set(name, *earlier);
    } else {
      kept.erase(name);
    }
  }
  return kept;
}

Incumbent::Incumbent(Configuration starting) : starting_(std::move(starting)) {}

void Incumbent::accept(Configuration faster) {
  past_.push_back(configuration());
  accepted_.push_back(std::move(faster));
}

void Incumbent::fall_back() {
  if (!accepted_.empty()) accepted_.pop_back();
}

void Incumbent::build_on(Configuration verified) {
  past_.insert(past_.begin(), starting_);
  accepted_.insert(accepted_.begin(), verified);
  verified_ = std::move(verified);
}

void Incumbent::drop(const Configuration& change, const Configuration& before) {
  std::vector<Configuration> left;
  for (Configuration& one : accepted_) {
    Configuration kept = without_change(std::move(one), change, before);
    const bool is_start = starting_.change_to(kept).empty();
    if (!is_start && (left.empty() || left.back() != kept)) left.push_back(std::move(kept));
  }
  accepted_ = std::move(left);
}

}  // namespace autotuned::tuner
