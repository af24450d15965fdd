// SPDX-License-Identifier: Apache-2.0
// What tells the data of a training from others, so that no training goes on with other data. The hash of a recipe counts
// files by name and size only: enough for a configuration, and not for weights. No LibTorch here.
#pragma once

#include <string>

#include "base/json.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::trainer {

// Of one data set: how many samples there are, and digests of the classes and their names, of all targets in their order,
// of the names of all files below their common folder, and of the stored bytes of some samples. These are evenly spaced:
// 64 of them, or fewer if they are large. Copies of the data are alike, whatever their folder and their times. What cannot
// be read now is left out.
[[nodiscard]] Json data_identity_of(const input::Dataset& data);

// How the data differ from those before, as clauses such as "the training data have other labels". Both are objects of such
// identities with the members `train` and `test`. Empty: in nothing that is known of both.
[[nodiscard]] std::string data_difference(const Json& before, const Json& now);

}  // namespace autotuned::trainer
