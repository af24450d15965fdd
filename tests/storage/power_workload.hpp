// SPDX-License-Identifier: Apache-2.0
// Facts for a history whose power is cut, and what is left of them. Shared by power_loss_test and the
// long form in tests/faults.
#pragma once

#include <cstdint>
#include <filesystem>

namespace autotuned::storage {

// The number of the fact that is so large that the log is moved into the database.
inline constexpr int kLargeFact = 25;

// Stores facts until one fails or `most` are stored. Returns how many succeeded, from the environment
// (1), recipe (2), run (3) and trial (4) on to the blocks.
[[nodiscard]] int store_facts(const std::filesystem::path& file, int most);

// How many of the facts above are there; -1 for a damaged history.
[[nodiscard]] int count_facts(const std::filesystem::path& file);

struct Cut {
  int acknowledged = 0;
  int found = 0;  // -1: the history is damaged

  // What was acknowledged is there; at most the fact that was being stored is there as well.
  [[nodiscard]] bool is_right() const { return found >= acknowledged && found <= acknowledged + 1; }
};

// How many operations storing `most` facts takes.
[[nodiscard]] std::uint64_t operations_of(int most);
// Cuts the power at that operation. `seed` decides which unsynced writes reach the disk.
[[nodiscard]] Cut cut_power_at(int most, std::uint64_t operation, std::uint64_t seed);

}  // namespace autotuned::storage
