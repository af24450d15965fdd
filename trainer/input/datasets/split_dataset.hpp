// SPDX-License-Identifier: Apache-2.0
// Splits a data set into a part to train on and a part to evaluate on.
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
      doubt;  // a sentence if the data name files twice, with their number and an example; else empty
};

// Takes `share` of the stored samples, rounded, at least one and at most all but one, for the test: drawn by the seed,
// in the order of the data. No file is in both parts: all samples that the data name as one file, such as lines of a
// table, are in one of them, and the test has a few samples fewer if those of the next file would be too many. (It has
// more only if each file has more samples than the test should get.) Only the training part repeats files (repeat_to).
// Both parts share the data. If the samples are blocks of one sequence (Dataset::overlap()), the test gets the end of
// it: blocks that share no targets with one another. The training gets no block that shares targets with the test.
// ErrorKind::invalid: there is only one sample or file, or no block is left for the training. REQUIRES: 0 < share < 1.
[[nodiscard]] Result<SplitData> split_dataset(std::unique_ptr<Dataset> data, double share,
                                              std::uint64_t seed);

}  // namespace autotuned::input
