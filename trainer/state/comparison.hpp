// SPDX-License-Identifier: Apache-2.0
// How the updates of two trainings from one state differ: plain data.
#pragma once

#include <optional>
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

struct BufferComparison {
  ParameterComparison update;
  bool is_floating = false;
  bool is_equal = false;  // value for value
};

// How the outputs of the two models differ, in evaluation mode on a few batches.
struct OutputComparison {
  double reference_change =
      0.0;                  // the norm of the change that the reference's steps made to its outputs
  double difference = 0.0;  // the norm of candidate - reference, after the steps
};

// How two steps with gradients of zero, from one state, differ for a parameter.
struct IdleComparison {
  std::string name;
  double reference_norm = 0.0;  // of the reference's update
  double difference = 0.0;      // the norm of candidate's - reference's
  double parameter_norm = 0.0;  // before the step
};

struct Comparison {
  // Whether parameters, buffers, averages and outputs (if there are any) are equal, value for value; NaN equals nothing.
  bool is_equal = false;
  bool is_finite = false;  // no NaN or Inf in the candidate
  std::vector<ParameterComparison> parameters;
  // Also the running averages of parameters, where all steps began with some: "running average of NAME".
  std::vector<BufferComparison> buffers;
  std::optional<OutputComparison> outputs;  // where both were kept with theirs
  std::vector<IdleComparison> idle;         // likewise
};

}  // namespace autotuned::trainer
