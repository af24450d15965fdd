// SPDX-License-Identifier: Apache-2.0
// The processes of a scene: found by the folder that their environment names.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace autotuned::faults {

// A kind of process: its executable and, unless empty, its first argument.
struct Role {
  std::string name;
  std::string executable;
  std::string argument;
};

struct Found {
  pid_t pid = 0;
  std::string parent;  // AUTOTUNED_PARENT_PID: who started it, also when that one is gone
};

// Zombies are not among them.
[[nodiscard]] std::vector<Found> find_processes(const std::filesystem::path& folder,
                                                const Role& role);

// The trainers of the scene, the sessions that started them and the programs that started those: others wait for a
// device.
[[nodiscard]] std::set<pid_t> at_work(const std::filesystem::path& folder, const Role& session,
                                      const Role& trainer);

// SIGKILL to one process of that role, by chance, and to one of `preferred` if any has it; false when there is none.
[[nodiscard]] bool kill_one(const std::filesystem::path& folder, const Role& role,
                            std::mt19937_64& random, const std::set<pid_t>& preferred = {});

// Two trainers of different sessions that were there at the same time, as text; empty for none.
[[nodiscard]] std::string double_booking(const std::filesystem::path& folder, const Role& trainer);

}  // namespace autotuned::faults
