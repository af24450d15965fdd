// SPDX-License-Identifier: Apache-2.0
// Reports the tuning of a script in a few lines on standard error, each with our name in front: the terminal belongs to
// the script.
#pragma once

#include <string>

#include "base/json.hpp"

namespace autotuned::daemon {

class ScriptScreen {
 public:
  // `name`: of the script.
  explicit ScriptScreen(std::string name) : name_(std::move(name)) {}

  void show(const Json& event) const;

 private:
  std::string name_;
};

}  // namespace autotuned::daemon
