// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/damage_search.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "trainer/input/common/shared_work.hpp"

namespace autotuned::input {
namespace {

constexpr std::size_t kMaxNamedFiles = 20;

// Why a sample cannot be decoded; nothing for one that can, or whose reading failed otherwise.
std::optional<Error> damage_of(const Dataset& data, std::int64_t index, const Stage& decoder,
                               StageMemory* memory, OutputBuffer& room, MaskRoom& mask_room,
                               std::vector<std::uint8_t>& bytes) {
  Result<void> done;
  const auto read = data.read_encoded(index, bytes);
  if (!read) {
    done = tl::unexpected(read.error());
  } else {
    const auto decoded = decoder.apply({.element = Element::encoded, .bytes = bytes},
                                       RandomStream(0, 0), memory, room);
    if (!decoded) done = tl::unexpected(decoded.error());
  }
  if (!done) done.error().where = data.name(index);
  if (done && data.target().is_mask()) {
    if (auto mask = data.read_mask(index, mask_room); !mask) done = tl::unexpected(mask.error());
  }
  if (done || !is_damage(done.error())) return std::nullopt;
  return std::move(done.error());
}

}  // namespace

DamageFound search_damage(const Dataset& data, const Transform& first, int threads,
                          std::chrono::nanoseconds most,
                          const std::function<bool()>& is_cancelled) {
  const TransformKind* const kind = find_transform(first.type);
  if (data.type().element != Element::encoded || kind == nullptr || !kind->takes_encoded) return {};
  const auto decoder = kind->make(first, data.type());
  if (!decoder) return {};
  // The samples that repeat others come after all of those.
  const std::int64_t items = std::min(data.stored().items, data.size());
  std::atomic<std::int64_t> looked_at = 0;
  std::mutex mutex;
  std::map<std::int64_t, Error> errors;
  share_work({.items = items, .threads = threads, .most = most, .is_cancelled = is_cancelled}, [&] {
    return [&, memory = (*decoder)->make_memory(), room = OutputBuffer(), mask_room = MaskRoom(),
            bytes = std::vector<std::uint8_t>()](std::int64_t index) mutable {
      auto error = damage_of(data, index, **decoder, memory.get(), room, mask_room, bytes);
      ++looked_at;
      if (!error) return;
      const std::lock_guard guard(mutex);
      errors.emplace(index, std::move(*error));
    };
  });
  DamageFound found{.errors = {}, .looked_at = looked_at};
  for (auto& [index, error] : errors)
    found.errors.push_back(std::move(error));
  return found;
}

Error with_others(Error error, const DamageFound& found) {
  std::vector<std::string> names;
  for (const Error& other : found.errors) {
    if (other.where != error.where) names.push_back(other.where);
  }
  if (names.empty()) return error;
  error.what += "; " + format_count(std::ssize(names)) + " more of " +
                format_count(found.looked_at) + " files cannot be read: ";
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamedFiles); ++i)
    error.what += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMaxNamedFiles) {
    const auto others = static_cast<std::int64_t>(names.size() - kMaxNamedFiles);
    error.what += " and " + format_count(others) + " others";
  }
  if (const std::string remedy = common_remedy(found.errors); !remedy.empty()) {
    error.remedy = remedy;
  } else {
    error.remedy = "repair the files, remove them, or set on_error: skip";
  }
  return error;
}

}  // namespace autotuned::input
