// SPDX-License-Identifier: Apache-2.0
#include "trainer/common/memory_shortage.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/text.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::string_view kBeginning = "CUDA out of memory. Tried to allocate ";
constexpr double kMaxBytes = 1e18;  // more is not believed
// The least part of the device's memory, one in this many, that counts as used by other programs: drivers and contexts
// use less.
constexpr std::int64_t kNotableShare = 10;

// "2.00 GiB" or "512 bytes" at the beginning of the text; 0 for anything else.
std::int64_t size_at(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{" bytes", 1.0}, {" KiB", 0x1p10}, {" MiB", 0x1p20}, {" GiB", 0x1p30}}};
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0.0)) return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  for (const auto& [unit, bytes] : kUnits) {
    if (text.starts_with(unit)) {
      return static_cast<std::int64_t>(std::min(number * bytes, kMaxBytes));
    }
  }
  return 0;
}

std::int64_t size_behind(std::string_view message, std::string_view words) {
  const std::size_t found = message.find(words);
  return found == std::string_view::npos ? 0 : size_at(message.substr(found + words.size()));
}

// The size stands behind the last "and " before these words: pools of graphs may be named in between.
std::int64_t size_before(std::string_view message, std::string_view words) {
  constexpr std::string_view kAnd = "and ";
  const std::size_t found = message.find(words);
  if (found == std::string_view::npos) return 0;
  const std::size_t begin = message.substr(0, found).rfind(kAnd);
  return begin == std::string_view::npos ? 0 : size_at(message.substr(begin + kAnd.size()));
}

}  // namespace

std::optional<MemoryShortage> memory_shortage_from(std::string_view message) {
  const std::size_t begin = message.find(kBeginning);
  if (begin == std::string_view::npos) return std::nullopt;
  message.remove_prefix(begin);
  MemoryShortage shortage{
      .wanted = size_behind(message, kBeginning),
      .device_total = size_behind(message, " has a total capacity of "),
      .device_free = size_behind(message, " of which "),
      .own = size_behind(message, "this process has "),
      .unused = size_before(message, " is reserved by PyTorch but unallocated")};
  if (shortage.wanted == 0) return std::nullopt;
  // In a container the driver may not know which process this is.
  if (shortage.own == 0) {
    shortage.own = size_behind(message, "Of the allocated memory ") + shortage.unused;
  }
  return shortage;
}

Error to_error(const MemoryShortage& shortage, std::string where) {
  std::string what = "the GPU has no memory left for another " + format_bytes(shortage.wanted);
  const std::int64_t others =
      std::max<std::int64_t>(0, shortage.device_total - shortage.device_free - shortage.own);
  const bool is_in_pieces = shortage.unused >= shortage.wanted;
  const bool have_others_much =
      shortage.device_total > 0 && others >= shortage.device_total / kNotableShare;
  if (shortage.device_total > 0) {
    what += " (of " + format_bytes(shortage.device_total) + " this process has " +
            format_bytes(shortage.own) +
            (have_others_much ? ", other programs " + format_bytes(others) : "") + ")";
  }
  std::string remedy;
  if (is_in_pieces) {
    what += "; " + format_bytes(shortage.unused) +
            " of its own are unused, in pieces that are too small";
    remedy =
        "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment, which joins such "
        "pieces";
  }
  if (have_others_much) {
    remedy += std::string(remedy.empty() ? "" : ", and ") + "end the other programs on this GPU";
  }
  if (remedy.empty()) remedy = "use smaller batches";
  return {.kind = ErrorKind::out_of_memory,
          .what = std::move(what),
          .where = std::move(where),
          .remedy = std::move(remedy),
          .is_memory_of_others = have_others_much};
}

}  // namespace autotuned::trainer
