// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_index/jpeg_index.hpp"

#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "trainer/input/jpeg_index/jpeg_index_entry.hpp"

namespace autotuned::input {
namespace {

// The header of an entry in memory, whose number of points is known to be right.
EntryHeader header_of(const Sample& entry) {
  EntryHeader header;
  std::memcpy(&header, entry.bytes.data(), sizeof header);
  return header;
}

}  // namespace

Result<std::unique_ptr<JpegIndex>> JpegIndex::create(std::int64_t items, std::int64_t most_bytes) {
  auto entries = SampleCache::create(items, most_bytes);
  if (!entries) return tl::unexpected(std::move(entries.error()));
  try {
    return std::unique_ptr<JpegIndex>(new JpegIndex(items, std::move(*entries)));
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory for an index of the files", "input.jpeg_index",
                "set it to off");
  }
}

JpegIndex::JpegIndex(std::int64_t items, std::unique_ptr<SampleCache> entries)
    : items_(items),
      entries_(std::move(entries)),
      is_checked_(new std::atomic<bool>[static_cast<std::size_t>(items)]()) {}

std::optional<std::span<const JpegPoint>> JpegIndex::find(std::int64_t item, const FileStamp& stamp,
                                                          std::span<const std::uint8_t> file) {
  std::vector<std::uint8_t> none;  // entries are in memory
  const auto entry = entries_->find(item, none);
  if (!entry) return std::nullopt;
  const EntryHeader header = header_of(*entry);
  std::atomic<bool>& is_checked = is_checked_[static_cast<std::size_t>(item)];
  bool is_right = header.stamp == stamp && std::cmp_equal(stamp.bytes, file.size());
  if (is_right && !is_checked.load(std::memory_order_relaxed)) {
    is_right = header.checksum == checksum_of(file);
    if (is_right) is_checked.store(true, std::memory_order_relaxed);
  }
  if (!is_right) {
    drop(item);
    return std::nullopt;
  }
  return std::span(reinterpret_cast<const JpegPoint*>(entry->bytes.data() + sizeof header),
                   header.points);
}

void JpegIndex::keep(std::int64_t item, const FileStamp& stamp, std::span<const std::uint8_t> file,
                     std::span<const JpegPoint> points) {
  // If the sizes differ, the file was changed just now.
  if (!is_wanted(item) || std::cmp_not_equal(stamp.bytes, file.size())) return;
  const EntryHeader header{stamp, checksum_of(file), static_cast<std::uint32_t>(points.size())};
  std::vector<std::uint8_t> entry;
  try {
    entry.resize(sizeof header + points.size_bytes());
  } catch (const std::bad_alloc&) {
    return;  // like one for which there is no room
  }
  std::memcpy(entry.data(), &header, sizeof header);
  if (!points.empty())
    std::memcpy(entry.data() + sizeof header, points.data(), points.size_bytes());
  put(item, entry, true);
  has_news_.store(true, std::memory_order_relaxed);
}

void JpegIndex::put(std::int64_t item, std::span<const std::uint8_t> entry, bool is_checked) {
  is_checked_[static_cast<std::size_t>(item)].store(is_checked, std::memory_order_relaxed);
  entries_->keep(item, {.element = Element::encoded, .bytes = entry});
}

}  // namespace autotuned::input
