// SPDX-License-Identifier: Apache-2.0
// A run as a client submits it.
#pragma once

#include <string>

#include "daemon/queue/protocol.hpp"

namespace autotuned::daemon {

inline Submission sample_submission(const std::string& token = "0123") {
  Submission submission;
  submission.token = token;
  submission.folder = "/work";
  submission.device = "cpu";
  submission.session.recipe = *recipes::parse_recipe(
      "autotuned: 1\n"
      "name: small\n"
      "model: {type: mlp, hidden: 16, classes: 4}\n"
      "data: {type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}\n"
      "optimizer: {type: sgd, lr: 0.1}\n"
      "train: {epochs: 1, batch_size: 8}\n",
      "recipe.yaml", recipes::knobs_of(Machine{}));
  submission.session.history = "/state/history.db";
  submission.environment = {"HOME=/somewhere", "OMP_NUM_THREADS=2"};
  return submission;
}

}  // namespace autotuned::daemon
