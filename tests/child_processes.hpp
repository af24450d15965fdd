// SPDX-License-Identifier: Apache-2.0
// Which processes another one has started, and whether one still runs.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>
#include <vector>

namespace autotuned::tests {

// Those that its main thread has started and that nobody has reaped, the oldest first.
inline std::vector<pid_t> children_of(pid_t process) {
  const std::string number = std::to_string(process);
  std::ifstream list("/proc/" + number + "/task/" + number + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; list >> child;)
    children.push_back(child);
  return children;
}

// False for one that has ended, reaped or not.
inline bool is_running(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  return text[text.rfind(')') + 2] != 'Z';
}

}  // namespace autotuned::tests
