// SPDX-License-Identifier: Apache-2.0
// The paths of an installation's parts and of a user's state.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace autotuned::daemon {

struct InstallationPaths {
  std::filesystem::path program;           // the running `autotuned`
  std::filesystem::path trainer;           // autotuned-trainer beside it, or $AUTOTUNED_TRAINER
  std::filesystem::path built_in_plugins;  // ../lib/autotuned/plugins
  std::filesystem::path templates;         // ../share/autotuned/templates, for `plugins new`
  // ../share/autotuned/python/autotuned/startup, from which Python loads the agent, or $AUTOTUNED_STARTUP
  std::filesystem::path startup;
};

// Derives the paths from /proc/self/exe. Does not check that they exist: a missing trainer is reported when it is
// started.
[[nodiscard]] InstallationPaths find_installation_paths();

// The folder in which the command was given. An error if it has been deleted since, or may not be read.
[[nodiscard]] Result<std::filesystem::path> current_folder();

// The folder of the daemon's socket, which only this user can write: $XDG_RUNTIME_DIR/autotuned, else
// /run/user/UID/autotuned, else lock_folder(); made when it is missing. ErrorKind::permission when
// somebody else owns it.
[[nodiscard]] Result<std::filesystem::path> runtime_folder();

// The folder of locks, the same however this user logged in: /tmp/autotuned-UID (a folder of a login goes with it, and
// a home may lie on a network), unless $AUTOTUNED_LOCKS names another. Made and checked like runtime_folder().
[[nodiscard]] Result<std::filesystem::path> lock_folder();

// The file whose lock a session holds while it measures (daemon/trainers/measurement_lock.hpp); empty if there is no
// folder of locks: the session then measures at the same time as others.
[[nodiscard]] std::filesystem::path measurement_lock_file();

}  // namespace autotuned::daemon
