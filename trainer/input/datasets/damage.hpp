// SPDX-License-Identifier: Apache-2.0
// Samples that cannot be read and for which others stand in (on_error: skip).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "base/result.hpp"

namespace autotuned::input {

// Whether it is the sample that is at fault, so that whoever reads it again finds the same. A disk that
// fails, memory that is not there and whatever the recipe asks for in vain are something else.
[[nodiscard]] bool is_damage(const Error& error);

// Which ones they were so far. Any number of threads at once.
class Damage {
 public:
  // Of data with so many stored samples.
  explicit Damage(std::int64_t items) : items_(items) {}

  // Notes a stored sample once; `error` names it. Fails when there are too many of them to go on: all,
  // or more than 10 and more than 1 %.
  [[nodiscard]] Result<void> note(std::int64_t item, const Error& error);

  [[nodiscard]] std::int64_t count() const;
  // In the order in which they were found, without the first `from`.
  [[nodiscard]] std::vector<Error> found(std::size_t from) const;

 private:
  const std::int64_t items_;
  mutable std::mutex mutex_;
  std::set<std::int64_t> noted_;
  std::vector<Error> errors_;
};

}  // namespace autotuned::input
