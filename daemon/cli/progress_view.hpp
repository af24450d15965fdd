// SPDX-License-Identifier: Apache-2.0
// Shows a run to a person as it happens: on a terminal as a table with a live last line, elsewhere as one
// line per event.
#pragma once

#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "base/json.hpp"

namespace autotuned::daemon {

class ProgressView {
 public:
  // `out` must outlive the view. `is_live`: rewrite the last line (a terminal).
  ProgressView(std::FILE* out, bool is_live);
  ~ProgressView();
  ProgressView(const ProgressView&) = delete;
  ProgressView& operator=(const ProgressView&) = delete;

  // An event of a session (docs/architecture.md). Unknown events are passed over.
  void show(const Json& event);

 private:
  void line(const std::string& text);    // stays
  void status(const std::string& text);  // is replaced by whatever comes next; live only
  void clear_status();

  void show_ceiling(const Json& event);
  void show_findings(const Json& event);
  void show_trial_started(const Json& trial);
  void show_block(const Json& event);
  void show_trial_finished(const Json& trial);
  void show_training(const Json& progress);

  std::FILE* out_;
  bool is_live_;
  bool has_status_ = false;
  std::string trial_;                            // of the trial in progress, as its line begins
  std::map<std::string, std::string> outcomes_;  // last sentence by plugin, to say each once
  std::chrono::steady_clock::time_point last_training_line_{};
};

}  // namespace autotuned::daemon
