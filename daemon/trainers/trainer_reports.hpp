// SPDX-License-Identifier: Apache-2.0
// What the trainers of a job tell beside their answers, whatever request it came with: each warning and each damaged file is
// passed on once.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "base/json.hpp"

namespace autotuned::daemon {

class TrainerReports {
 public:
  // Either may be empty. `on_damage` receives `file`, `what`, and `files`, the number of damaged files so far.
  TrainerReports(std::function<void(const Json&)> on_damage,
                 std::function<void(const std::string&)> on_warning);

  // Takes the `progress` of a request, of which other kinds are ignored.
  void take(const Json& progress);

 private:
  std::function<void(const Json&)> on_damage_;
  std::function<void(const std::string&)> on_warning_;
  std::set<std::string> damaged_files_;
  std::set<std::string> warnings_;
};

}  // namespace autotuned::daemon
