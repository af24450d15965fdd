// SPDX-License-Identifier: Apache-2.0
#include "tuner/incumbent.hpp"

#include <string>
#include <utility>

namespace autotuned::tuner {

Configuration without_change(Configuration kept, const Configuration& change,
                             const Configuration& starting) {
  for (const auto& [name, value] : change.values()) {
    const KnobValue* const now = kept.find(name);
    if (now == nullptr || *now != value) continue;
    const KnobValue* const before = starting.find(name);
    kept.set(name, before != nullptr ? *before : KnobValue(std::string()));
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

void Incumbent::drop(const Configuration& change) {
  std::vector<Configuration> left;
  for (Configuration& one : accepted_) {
    Configuration kept = without_change(std::move(one), change, starting_);
    const bool is_start = starting_.change_to(kept).empty();
    if (!is_start && (left.empty() || left.back() != kept)) left.push_back(std::move(kept));
  }
  accepted_ = std::move(left);
}

}  // namespace autotuned::tuner
