// SPDX-License-Identifier: Apache-2.0
// A data set in two: one to train on, one to evaluate on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::input {

struct SplitData {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
  std::string
      doubt;  // that data name files twice, with how many and an example; empty where they do not
};

// Takes `share` of the stored samples, rounded, at least one and at most all but one, for the test: drawn by the seed,
// in the order of the data. No file is in both parts: all samples that the data name as one file, such as lines of a table, are
// in one of them, and the test has a few samples fewer where those of the next file would be too many. (It has more only where
// each file has more samples than it should get.) Only the training part repeats files (repeat_to). Both parts share the data. Of blocks of one sequence (Dataset::overlap()) the test gets the end: of its blocks those that share no
// targets with one another, and the training none that shares targets with the test.
// ErrorKind::invalid: there is only one sample or file, or no block is left for the training. REQUIRES: 0 < share < 1.
[[nodiscard]] Result<SplitData> split_dataset(std::unique_ptr<Dataset> data, double share,
                                              std::uint64_t seed);

}  // namespace autotuned::input
