// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_index.hpp"

#include <zlib.h>

#include <cassert>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/file.hpp"

namespace autotuned::input {
namespace {

// An entry: this, and the points.
struct EntryHeader {
  FileStamp stamp;
  std::uint32_t checksum = 0;  // CRC-32 of the file
  std::uint32_t points = 0;
};
static_assert(std::is_trivially_copyable_v<EntryHeader> && sizeof(EntryHeader) == 24);
static_assert(std::is_trivially_copyable_v<JpegPoint> && sizeof(JpegPoint) == 10);

// A file: its header, the key, entries with their items before them, and the CRC-32 of all of it.
constexpr std::string_view kMagic = "autotuned-jpeg-index-1\n";
struct FileHeader {
  std::uint64_t key_bytes = 0;
  std::uint64_t items = 0;  // of the data
  std::uint64_t entries = 0;
};

std::uint32_t checksum_of(std::span<const std::uint8_t> bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, bytes.data(), bytes.size()));
}

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Takes from the front of a text; false where that is too short.
class Reader {
 public:
  explicit Reader(std::string_view text) : left_(text) {}

  template <class T>
  [[nodiscard]] bool take(T& value) {
    if (left_.size() < sizeof value) return false;
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return true;
  }
  [[nodiscard]] bool take(std::uint64_t bytes, std::string_view& text) {
    if (left_.size() < bytes) return false;
    text = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return true;
  }
  [[nodiscard]] std::string_view left() const { return left_; }

 private:
  std::string_view left_;
};

// Of an entry in memory, which holds as many points as it says.
EntryHeader header_of(const Sample& entry) {
  EntryHeader header;
  std::memcpy(&header, entry.bytes.data(), sizeof header);
  return header;
}

struct Loaded {
  std::int64_t item = 0;
  std::span<const std::uint8_t> entry;
};

// The entries of a file whose checksum is right; nothing where its parts do not fit together.
std::optional<std::vector<Loaded>> entries_of(Reader& reader, const FileHeader& header) {
  std::vector<Loaded> all;
  for (std::uint64_t i = 0; i < header.entries; ++i) {
    std::int64_t item = 0;
    if (!reader.take(item) || item < 0 || std::cmp_greater_equal(item, header.items)) return {};
    EntryHeader entry;
    Reader ahead = reader;
    std::string_view bytes;
    if (!ahead.take(entry)) return {};
    if (!reader.take(sizeof entry + sizeof(JpegPoint) * std::uint64_t{entry.points}, bytes))
      return {};
    all.push_back({item, bytes_of(bytes)});
  }
  if (!reader.left().empty()) return {};
  return all;
}

}  // namespace

Result<std::unique_ptr<JpegIndex>> JpegIndex::create(std::int64_t items, std::int64_t most_bytes) {
  auto entries = SampleCache::create(items, most_bytes);
  if (!entries) return tl::unexpected(std::move(entries.error()));
  try {
    return std::unique_ptr<JpegIndex>(new JpegIndex(items, most_bytes, std::move(*entries)));
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory for an index of the files", "input.jpeg_index",
                "set it to off");
  }
}

JpegIndex::JpegIndex(std::int64_t items, std::int64_t most_bytes,
                     std::unique_ptr<SampleCache> entries)
    : items_(items),
      most_bytes_(most_bytes),
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
  // Else it was changed just now.
  if (!is_wanted(item) || std::cmp_not_equal(stamp.bytes, file.size())) return;
  const EntryHeader header{stamp, checksum_of(file), static_cast<std::uint32_t>(points.size())};
  std::vector<std::uint8_t> entry(sizeof header + points.size_bytes());
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

Result<void> JpegIndex::load(const std::filesystem::path& file, std::string_view key) {
  const auto text = read_file(file, static_cast<std::size_t>(most_bytes_));
  if (!text) return tl::unexpected(text.error());
  const auto damaged = [&] {
    return fail(ErrorKind::corrupt, "the index is damaged", file.string(), "remove it");
  };
  std::uint32_t checksum = 0;
  if (text->size() < sizeof checksum) return damaged();
  const std::string_view content(text->data(), text->size() - sizeof checksum);
  std::memcpy(&checksum, text->data() + content.size(), sizeof checksum);
  Reader reader(content);
  std::string_view part;
  FileHeader header;
  if (!reader.take(kMagic.size(), part) || part != kMagic) return damaged();
  if (checksum != checksum_of(bytes_of(content))) return damaged();
  if (!reader.take(header) || !reader.take(header.key_bytes, part)) return damaged();
  if (part != key || std::cmp_not_equal(header.items, items_)) {
    return fail(ErrorKind::not_found, "the index is of other data", file.string());
  }
  const auto entries = entries_of(reader, header);
  if (!entries) return damaged();
  for (const auto& [item, entry] : *entries)
    put(item, entry, false);
  has_news_.store(false, std::memory_order_relaxed);
  return {};
}

Result<void> JpegIndex::save(const std::filesystem::path& file, std::string_view key) {
  has_news_.store(false, std::memory_order_relaxed);  // what is kept from here on may be missed
  std::string content(kMagic);
  FileHeader header{.key_bytes = key.size(), .items = static_cast<std::uint64_t>(items_)};
  const std::size_t header_at = content.size();
  append(content, header);
  content += key;
  std::vector<std::uint8_t> none;
  for (std::int64_t item = 0; item < items_; ++item) {
    const auto entry = entries_->find(item, none);
    if (!entry) continue;
    append(content, item);
    content.append(reinterpret_cast<const char*>(entry->bytes.data()), entry->bytes.size());
    ++header.entries;
  }
  std::memcpy(content.data() + header_at, &header, sizeof header);
  append(content, checksum_of(bytes_of(content)));
  auto written = write_file_atomically(file, content, /*shared=*/false);
  if (!written) has_news_.store(true, std::memory_order_relaxed);
  return written;
}

}  // namespace autotuned::input
