// SPDX-License-Identifier: Apache-2.0
// A run as a client submits it.
#pragma once

#include <string>

#include "daemon/queue/protocol.hpp"
#include "tests/daemon/small_recipe.hpp"

namespace autotuned::daemon {

inline Submission sample_submission(const std::string& token = "0123") {
  Submission submission;
  submission.token = token;
  submission.folder = "/work";
  submission.device = "cpu";
  submission.session.recipe = small_recipe();
  submission.session.history = "/state/history.db";
  submission.environment = {"HOME=/somewhere", "OMP_NUM_THREADS=2"};
  return submission;
}

}  // namespace autotuned::daemon
