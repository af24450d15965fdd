// SPDX-License-Identifier: Apache-2.0
// Shows a run, done here or by the daemon, to a person: progress on standard error, the result on standard output.
#pragma once

#include <string>

#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/screen/progress_view.hpp"

namespace autotuned::daemon {

class RunScreen {
 public:
  enum class Viewer { owner, watcher };  // whose Ctrl-C stops the run, and whose does not

  // Draws the panel at once if standard error is a terminal.
  explicit RunScreen(const ScreenOptions& options, Viewer viewer = Viewer::owner);

  void show(const Json& event);
  // Draws the panel again with the present time. To be called regularly.
  void tick() { view_.tick(); }
  // Removes the panel, so that other code may write to the terminal.
  void finish() { view_.finish(); }
  // Prints the result and returns the exit code of the command. `outcome` is that of the run, or why
  // there is none.
  int conclude(const Result<int>& outcome, bool as_json, bool require_gain);

 private:
  ScreenOptions options_;
  ProgressView view_;
  Json result_;
  std::string text_;
  std::string problem_;
  bool has_begun_ = false;  // there is a run in the history
};

}  // namespace autotuned::daemon
