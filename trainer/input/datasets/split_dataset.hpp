// SPDX-License-Identifier: Apache-2.0
// A data set in two: one to train on, one to evaluate on.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::input {

struct SplitData {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
};

// Takes `share` of what is stored, rounded, at least one and all but one at most, for the test: drawn from the seed,
// in the order of the data. So no file is in both, also where files are gone through again and again: that is done by
// the training alone. The two share the data. ErrorKind::invalid: there is but one sample. REQUIRES: 0 < share < 1.
[[nodiscard]] Result<SplitData> split_dataset(std::unique_ptr<Dataset> data, double share,
                                              std::uint64_t seed);

}  // namespace autotuned::input
