// SPDX-License-Identifier: Apache-2.0
// What a command prints, run in this process.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/cli/options/commands.hpp"
#include "tests/places.hpp"

namespace autotuned::daemon {

struct Printed {
  int code = 0;
  std::string out;
  std::string err;
};

inline Printed run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "autotuned");
  std::vector<char*> words;
  for (std::string& argument : arguments)
    words.push_back(argument.data());
  words.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Printed printed;
  printed.code = run_command(static_cast<int>(arguments.size()), words.data());
  printed.out = testing::internal::GetCapturedStdout();
  printed.err = testing::internal::GetCapturedStderr();
  return printed;
}

// A trace of tests/profiler/data.
inline std::string data_file(const std::string& name) {
  return tests::source_folder() / "tests/profiler/data" / (name + ".pt.trace.json.gz");
}

}  // namespace autotuned::daemon
