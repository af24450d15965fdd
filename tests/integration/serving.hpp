// SPDX-License-Identifier: Apache-2.0
// A daemon in a scene, and what its clients ask it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/integration/scene.hpp"

namespace autotuned {

inline Running start_daemon(const Scene& scene) {
  Running daemon = scene.start({"serve"});
  EXPECT_TRUE(daemon.wait_for(" serving "));
  return daemon;
}

// Submits the scene's recipe; the number of its job.
inline std::string detach(const Scene& scene) {
  const Outcome outcome = scene.command({"run", scene.recipe().string(), "--detach", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.json().at("job").dump();
}

// A watcher of a job that is tuned.
inline Running attach(const Scene& scene, const std::string& job) {
  Running watcher = scene.start({"attach", job});
  EXPECT_TRUE(watcher.wait_for("\ntuned "));
  return watcher;
}

// A daemon, who watches its only run, and that run's session.
struct OneRun {
  Running daemon;
  Running watcher;
  pid_t session;
};
inline OneRun start_one_run(const Scene& scene) {
  Running daemon = start_daemon(scene);
  detach(scene);
  Running watcher = attach(scene, "1");
  const pid_t session = scene.session_of(daemon.pid());
  return {std::move(daemon), std::move(watcher), session};
}

inline Json status(const Scene& scene) {
  const Outcome outcome = scene.command({"status", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.json();
}

}  // namespace autotuned
