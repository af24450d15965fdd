// SPDX-License-Identifier: Apache-2.0
// The forms of a command line that the parser does not know of.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace autotuned::daemon {

// The formatter of a command whose --help and manual page name each form in a line of its own.
class UsageForms final : public CLI::Formatter {
 public:
  // `forms`: what follows the options: "SCRIPT.py ARGS...".
  explicit UsageForms(std::vector<std::string> forms) : forms_(std::move(forms)) {}

  [[nodiscard]] const std::vector<std::string>& forms() const { return forms_; }

  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    std::string usage;
    for (const std::string& form : forms_)
      usage += (usage.empty() ? "Usage: " : "       ") + name + " [OPTIONS] " + form + "\n";
    return usage;
  }

 private:
  std::vector<std::string> forms_;
};

}  // namespace autotuned::daemon
