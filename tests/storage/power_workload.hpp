// SPDX-License-Identifier: Apache-2.0
// Facts for a history whose power is cut, and what is left of them: rows that are added, and rows that are replaced as
// a run, its trial and its best configuration go on. Shared by power_loss_test and the long form in tests/faults.
#pragma once

#include <cstdint>
#include <filesystem>

namespace autotuned::storage {

// The number of the fact that is so large that the log is moved into the database.
inline constexpr int kLargeFact = 25;
inline constexpr int kMaxFacts = kLargeFact + 5;

// Stores facts until one fails or `most`, kMaxFacts at most, are stored. Returns how many succeeded.
[[nodiscard]] int store_facts(const std::filesystem::path& file, int most);

// After how many facts a history holds exactly what this one holds, value for value; -1 for a damaged one, and for one
// that never was like this.
[[nodiscard]] int facts_in(const std::filesystem::path& file);

// How many rows of whatever content there are; -1 for a damaged history.
[[nodiscard]] int count_rows(const std::filesystem::path& file);

struct Cut {
  int acknowledged = 0;
  int found = 0;  // facts_in()

  // What was acknowledged is there, and nothing else; at most the fact that was being stored is there as well.
  [[nodiscard]] bool is_right() const { return found >= acknowledged && found <= acknowledged + 1; }
};

// How many operations storing `most` facts takes.
[[nodiscard]] std::uint64_t operations_of(int most);
// Cuts the power at that operation. `seed` decides which unsynced writes reach the disk.
[[nodiscard]] Cut cut_power_at(int most, std::uint64_t operation, std::uint64_t seed);

}  // namespace autotuned::storage
