// SPDX-License-Identifier: Apache-2.0
// Identifies the data of a training, so that no training goes on with other data. The hash of a recipe counts files by
// name and size only: enough for a configuration, and not for weights. No LibTorch here.
#pragma once

#include <string>

#include "base/json.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::trainer {

// The identity of one data set: the number of samples, and digests of the classes and their names, of all targets in
// order, of the names of all files below their common folder, and of the stored bytes of some samples. These are evenly
// spaced: 64 of them, or fewer if they are large. Copies of the data have the same identity, whatever their folder and
// their times. Parts that cannot be read now are left out.
[[nodiscard]] Json data_identity_of(const input::Dataset& data);

// How the data differ from those before, as clauses such as "the training data have other labels". Both arguments are
// objects with the identities `train` and `test`. Empty: no difference in the parts that both have.
[[nodiscard]] std::string data_difference(const Json& before, const Json& now);

}  // namespace autotuned::trainer
