// SPDX-License-Identifier: Apache-2.0
// The text about single classes in the evaluation of a trained model.
#pragma once

#include <string>

#include "base/json.hpp"

namespace autotuned::daemon {

// "classes  recall from 61.20 % (shirt) to 98.10 % (bag); most often taken for another: shirt for coat, 96 of 1,000",
// with a line end; for masks "classes  IoU from …". `training` is that column of a run. Empty: fewer than two
// classes have test samples, or nothing is known of them.
[[nodiscard]] std::string classes_text(const Json& training);

}  // namespace autotuned::daemon
