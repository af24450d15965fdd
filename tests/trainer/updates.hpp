// SPDX-License-Identifier: Apache-2.0
// What the tuner's checks are given, of two trainings.
#pragma once

#include <utility>
#include <vector>

#include "trainer/state/comparison.hpp"
#include "tuner/checks.hpp"

namespace autotuned::trainer {

inline tuner::UpdateComparison updates_of(const Comparison& comparison,
                                          std::vector<double> reference,
                                          std::vector<double> candidate) {
  tuner::UpdateComparison updates{.steps = static_cast<std::int64_t>(reference.size()),
                                  .equal = comparison.is_equal,
                                  .finite = comparison.is_finite};
  for (const ParameterComparison& one : comparison.parameters) {
    updates.parameters.push_back(
        {one.name, one.reference_norm, one.norm_ratio, one.cosine, one.candidate_norm});
  }
  for (const BufferComparison& one : comparison.buffers) {
    const ParameterComparison& update = one.update;
    updates.buffers.push_back({{update.name, update.reference_norm, update.norm_ratio,
                                update.cosine, update.candidate_norm},
                               one.is_floating,
                               one.is_equal});
  }
  if (comparison.outputs) {
    updates.outputs = {.reference_change = comparison.outputs->reference_change,
                       .difference = comparison.outputs->difference};
  }
  for (const IdleComparison& one : comparison.idle) {
    updates.idle.push_back({.name = one.name,
                            .reference_norm = one.reference_norm,
                            .difference = one.difference,
                            .parameter_norm = one.parameter_norm});
  }
  updates.reference_losses = std::move(reference);
  updates.candidate_losses = std::move(candidate);
  return updates;
}

}  // namespace autotuned::trainer
