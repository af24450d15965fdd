// SPDX-License-Identifier: Apache-2.0
// Guesses how many classes arrays and shards have. The trainer checks these files carefully; here an unusual file
// simply gives no answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace autotuned::daemon {

// The header of a file written by numpy.save.
struct ArrayForm {
  char kind = 'u';  // u: unsigned integers, i: signed, f: floats
  int item_bytes = 1;
  std::vector<std::int64_t> shape;
  std::int64_t data_begin = 0;  // in bytes from the file's beginning
};

[[nodiscard]] std::optional<ArrayForm> array_form_of(const std::filesystem::path& file);

// The highest label plus one, among the first `most_labels` labels in a .npy file of integers.
[[nodiscard]] std::optional<std::int64_t> classes_in_array(const std::filesystem::path& file,
                                                           std::int64_t most_labels = 10'000'000);

// The same for the .cls files in the first `most_bytes` bytes of a tar file.
[[nodiscard]] std::optional<std::int64_t> classes_in_shard(const std::filesystem::path& file,
                                                           std::int64_t most_bytes = std::int64_t{1}
                                                                                     << 30);

}  // namespace autotuned::daemon
