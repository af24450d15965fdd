// SPDX-License-Identifier: Apache-2.0
// The exception for what code of plugins does. Private to trainer/.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace autotuned::trainer {

// An exception of a plugin; the text names the plugin and the error.
class PluginError : public std::runtime_error {
 public:
  // `extensions`: the names of the extensions that may have caused it; none for a workload.
  explicit PluginError(const std::string& text, std::vector<std::string> extensions = {})
      : std::runtime_error(text), extensions_(std::move(extensions)) {}

  [[nodiscard]] const std::vector<std::string>& extensions() const { return extensions_; }

 private:
  std::vector<std::string> extensions_;
};

}  // namespace autotuned::trainer
