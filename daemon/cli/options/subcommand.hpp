// SPDX-License-Identifier: Apache-2.0
// A subcommand of the command line, with the function that does its work.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

namespace autotuned::daemon {

struct Subcommand {
  const CLI::App* command = nullptr;
  std::function<int()> run;  // once the command line is parsed; one of daemon/common/exit_codes.hpp
};

using Subcommands = std::vector<Subcommand>;

}  // namespace autotuned::daemon
