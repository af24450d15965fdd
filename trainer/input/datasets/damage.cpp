// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/damage.hpp"

#include "base/text.hpp"

namespace autotuned::input {
namespace {

constexpr std::int64_t kMostOfFew = 10;
constexpr std::int64_t kMostPercent = 1;

}  // namespace

bool is_damage(const Error& error) {
  switch (error.kind) {
    case ErrorKind::corrupt:
    case ErrorKind::unsupported:
    case ErrorKind::not_found:
    case ErrorKind::permission:
      return true;
    default:
      return false;
  }
}

Result<void> Damage::note(std::int64_t item, const Error& error) {
  const std::lock_guard guard(mutex_);
  if (noted_.insert(item).second) errors_.push_back(error);
  const auto count = static_cast<std::int64_t>(errors_.size());
  const bool is_bearable = count <= kMostOfFew || count * 100 <= items_ * kMostPercent;
  if (count < items_ && is_bearable) return {};
  const Error& first = errors_.front();
  return fail(ErrorKind::corrupt,
              format_count(count) + " of " + format_count(items_) +
                  " files cannot be read, which are too many to skip; the first one: " + first.what,
              first.where, "repair the files, or remove them from the recipe's data");
}

std::int64_t Damage::count() const {
  const std::lock_guard guard(mutex_);
  return static_cast<std::int64_t>(errors_.size());
}

std::vector<Error> Damage::found(std::size_t from) const {
  const std::lock_guard guard(mutex_);
  if (from >= errors_.size()) return {};
  return {errors_.begin() + static_cast<std::ptrdiff_t>(from), errors_.end()};
}

}  // namespace autotuned::input
