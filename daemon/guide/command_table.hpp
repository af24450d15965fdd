// SPDX-License-Identifier: Apache-2.0
// The commands as values. Completions and the manual page are made from them, so they agree with --help.
#pragma once

#include <string>
#include <vector>

namespace autotuned::daemon {

struct CommandOption {
  std::vector<std::string> names;  // "-s", "--set"; empty: an argument that has its place
  std::string value;  // the placeholder of its value, or of the argument: "FILE"; empty: a flag
  std::string summary;
  std::vector<std::string> choices;  // the values that it takes; empty: any
  bool is_required = false;
  bool is_file = false;  // the value names a file or a folder
  bool is_run = false;   // an argument that names a run of the history
};

struct Command {
  std::string name;
  std::string summary;
  std::vector<CommandOption> options;
  std::vector<Command> commands;
  // What may follow the options, where there are several forms: "SCRIPT.py ARGS...". Empty: the arguments among `options`.
  std::vector<std::string> forms = {};
};

}  // namespace autotuned::daemon
