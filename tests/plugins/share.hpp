// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {

// The `signal_share_ratio` of the first candidate.
inline double first_share(const Json& answer) {
  return answer.at("candidates").at(0).at("signal_share_ratio").get<double>();
}

}  // namespace autotuned::plugins
