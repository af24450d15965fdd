// SPDX-License-Identifier: Apache-2.0
// The exception for what code of plugins does. Private to trainer/.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace autotuned::trainer {

// An exception of a plugin; the text names the plugin and the error.
class PluginError : public std::runtime_error {
 public:
  // `extensions`: the names of the extensions that may have caused it; none for a workload.
  explicit PluginError(const std::string& text, std::vector<std::string> extensions = {},
                       ExtensionFault fault = ExtensionFault::failed)
      : std::runtime_error(text), extensions_(std::move(extensions)), fault_(fault) {}

  [[nodiscard]] const std::vector<std::string>& extensions() const { return extensions_; }
  [[nodiscard]] ExtensionFault fault() const { return fault_; }

 private:
  std::vector<std::string> extensions_;
  ExtensionFault fault_;
};

// Thrown instead of a lack of memory where a plugin is involved, so that nobody else is blamed for it.
class ShortageError : public std::runtime_error {
 public:
  // `error`: ErrorKind::out_of_memory. Error::extensions names the extension whose code lacked the memory; none: it
  // was the model's own, which an extension only called.
  explicit ShortageError(Error error) : std::runtime_error(error.what), error_(std::move(error)) {}

  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

}  // namespace autotuned::trainer
