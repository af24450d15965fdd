// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/damage.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace autotuned::input {
namespace {

constexpr std::int64_t kMaxOfFew = 10;
constexpr std::int64_t kMaxPercent = 1;
constexpr std::size_t kMaxOthersNamed = 3;

// "; others: b, c, d and 196 more" behind the first one.
std::string others_text(std::span<const Error> errors) {
  std::vector<std::string> names;
  for (const Error& error : errors.subspan(1))
    names.push_back(error.where);
  return names.empty() ? std::string() : "; others: " + format_names(names, kMaxOthersNamed);
}

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

std::string common_remedy(std::span<const Error> errors) {
  const bool are_alike = !errors.empty() && std::ranges::all_of(errors, [&](const Error& error) {
    return error.kind == ErrorKind::unsupported && error.what == errors.front().what;
  });
  return are_alike ? errors.front().remedy : std::string();
}

void Damage::add(std::int64_t item, const Error& error) {
  const std::lock_guard guard(mutex_);
  if (noted_.insert(item).second) errors_.push_back(error);
}

Result<void> Damage::check() const {
  const std::lock_guard guard(mutex_);
  const auto count = static_cast<std::int64_t>(errors_.size());
  const bool is_bearable = count <= kMaxOfFew || count * 100 <= items_ * kMaxPercent;
  if (count == 0 || (count < items_ && is_bearable)) return {};
  const Error& first = errors_.front();
  std::string remedy = common_remedy(errors_);
  if (remedy.empty()) remedy = "repair the files, or remove them from the recipe's data";
  return fail(ErrorKind::corrupt,
              format_count(count) + " of " + format_count(items_) +
                  " files cannot be read, which are too many to skip; the first one: " +
                  first.what + others_text(errors_),
              first.where, std::move(remedy));
}

Result<void> Damage::note(std::int64_t item, const Error& error) {
  add(item, error);
  return check();
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
