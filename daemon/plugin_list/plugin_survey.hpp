// SPDX-License-Identifier: Apache-2.0
// The plugins of some folders, loaded in a process of their own: one that crashes or hangs while it is
// loaded costs that process, and is reported.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// plugins::FoundPlugin without what only its own process can use.
struct SurveyedPlugin {
  std::string name;
  std::string kind;
  std::string version;
  std::string summary;
  std::string state;  // "ready", "refused", "unsupported", "crashed"
  std::filesystem::path path;
  std::string sha256;
  std::string refusal;  // why it is not ready

  [[nodiscard]] bool is_ready() const { return state == "ready"; }
  [[nodiscard]] static Result<SurveyedPlugin> from_json(const Json& value);
  [[nodiscard]] Json to_json() const;
};

// What find_plugins() (plugins/host/loader.hpp) finds, sorted by name, and those that ended their process
// or did not return within `limit`. Errors: the process cannot be started, or ends for no plugin's sake.
// Call from the main thread.
[[nodiscard]] Result<std::vector<SurveyedPlugin>> survey_plugins(
    const std::vector<std::filesystem::path>& folders,
    std::chrono::nanoseconds limit = std::chrono::seconds(2));

// The other side: answers one request on the socket `control_descriptor`. Returns the exit code.
[[nodiscard]] int run_plugin_process(int control_descriptor);

}  // namespace autotuned::daemon
