// SPDX-License-Identifier: Apache-2.0
// How the updates of two trainings from one state differ: plain data.
#pragma once

#include <string>
#include <vector>

namespace autotuned::trainer {

struct ParameterComparison {
  std::string name;
  double reference_norm = 0.0;
  double candidate_norm = 0.0;
  double norm_ratio = 1.0;  // candidate over reference; 1 when both are 0, infinite when one is
  double cosine = 1.0;      // 1 when both are 0, 0 when one is
};

struct Comparison {
  bool is_equal = false;   // parameters and buffers, value for value; NaN equals nothing
  bool is_finite = false;  // no NaN or Inf in the candidate
  std::vector<ParameterComparison> parameters;
};

}  // namespace autotuned::trainer
