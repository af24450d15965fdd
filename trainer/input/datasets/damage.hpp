// SPDX-License-Identifier: Apache-2.0
// Samples that cannot be read and are replaced by others (on_error: skip).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::input {

// Whether the sample itself is damaged, so that every read fails in the same way. Failing disks, lack of memory and
// wrong recipes are other errors.
[[nodiscard]] bool is_damage(const Error& error);

// The remedy if all files have the same unsupported kind, such as masks in colours: that of the first error. Empty: the
// errors differ, or the files are damaged.
[[nodiscard]] std::string common_remedy(std::span<const Error> errors);

// The damaged samples found so far. Any number of threads at once.
class Damage {
 public:
  // The data has this number of stored samples.
  explicit Damage(std::int64_t items) : items_(items) {}

  // Notes a stored sample once; `error` names its file.
  void add(std::int64_t item, const Error& error);
  // Fails if too many are damaged: all, or more than 10 and more than 1 %. Says how many, and names a few.
  [[nodiscard]] Result<void> check() const;
  // add() and check().
  [[nodiscard]] Result<void> note(std::int64_t item, const Error& error);

  [[nodiscard]] std::int64_t count() const;
  // The errors in the order in which they were found, without the first `from`.
  [[nodiscard]] std::vector<Error> found(std::size_t from) const;

 private:
  const std::int64_t items_;
  mutable std::mutex mutex_;
  std::set<std::int64_t> noted_;
  std::vector<Error> errors_;
};

}  // namespace autotuned::input
