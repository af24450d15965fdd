// SPDX-License-Identifier: Apache-2.0
// Folders of plugins for tests, and plugins asked about situations.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "plugins/host/loader.hpp"

namespace autotuned::plugins {

// An empty folder of our own, 0755, removed at the end.
class PluginFolder {
 public:
  PluginFolder();
  ~PluginFolder();
  PluginFolder(const PluginFolder&) = delete;
  PluginFolder& operator=(const PluginFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Copies the library of a fixture (fixtures/), under its own or another name.
  std::filesystem::path add(const std::string& fixture, const std::string& as = {}) const;
  std::filesystem::path write(const std::string& leaf, std::string_view content) const;
  std::filesystem::path make_folder(const std::string& leaf) const;

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::filesystem::path fixture_library(const std::string& name);

// The only plugin of a folder.
[[nodiscard]] FoundPlugin only_plugin(const std::filesystem::path& folder);

// tests/plugins/data/NAME.json: a real-looking situation to start from.
[[nodiscard]] Json situation(const std::string& name);

// Those in the folder of the build, loaded once.
[[nodiscard]] const std::vector<FoundPlugin>& built_ins();

// What one of them says to a situation.
[[nodiscard]] Json ask(const std::string& plugin, const Json& situation);

// Parts of an answer: the change of its first candidate, or null; why there is none; the first reason.
[[nodiscard]] Json first_change(const Json& answer);
[[nodiscard]] std::string none_because(const Json& answer);
[[nodiscard]] std::string first_reason(const Json& answer);
[[nodiscard]] double first_gain(const Json& answer);

// A trial of `change` against what is the incumbent in `situation`, as it would be reported.
[[nodiscard]] Json trial_of(const Json& situation, const Json& change, const std::string& verdict,
                            double ratio);
// Appends that trial; an accepted one also becomes the incumbent.
void tell(Json& situation, const Json& change, const std::string& verdict, double ratio);

}  // namespace autotuned::plugins
