// SPDX-License-Identifier: Apache-2.0
// Loads the plugins of some folders in a process of its own: a plugin that crashes or hangs while it is loaded ends
// only that process, and is reported.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// A plugins::FoundPlugin as data: without what only the process that loaded it can use.
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

// Returns what find_plugins() (plugins/host/loader.hpp) finds, sorted by name, with the plugins that ended their
// process or took longer than `limit`. Errors: the process cannot be started, or ends and no plugin is to blame. Call
// from the main thread.
[[nodiscard]] Result<std::vector<SurveyedPlugin>> survey_plugins(
    const std::vector<std::filesystem::path>& folders,
    std::chrono::nanoseconds limit = std::chrono::seconds(2));

// The other side: answers one request on the socket `control_descriptor`. Returns the exit code.
[[nodiscard]] int run_plugin_process(int control_descriptor);

}  // namespace autotuned::daemon
