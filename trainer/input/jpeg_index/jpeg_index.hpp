// SPDX-License-Identifier: Apache-2.0
// An index of the rows of JPEG files: positions in their Huffman code, found when a file is first read. Later only the
// part of a file that a crop needs is decoded.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "trainer/input/common/sample.hpp"
#include "trainer/input/common/sample_cache.hpp"
#include "trainer/input/jpeg_index/jpeg_scan.hpp"

namespace autotuned::input {

// In memory, up to a number of bytes; files without room are decoded without an index. Any number of threads at once,
// without locks, except load().
class JpegIndex {
 public:
  // Makes an index of stored samples 0 .. items-1 with at most `most_bytes`. ErrorKind::out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<JpegIndex>> create(std::int64_t items,
                                                                 std::int64_t most_bytes);

  // The points of a file, valid as long as the index; no points for a file that has none. Nothing: the file is not
  // in the index, or has changed. `file` is the whole file: its checksum is compared at the first use of a loaded
  // entry. REQUIRES (here and below): 0 <= item < items.
  [[nodiscard]] std::optional<std::span<const JpegPoint>> find(std::int64_t item,
                                                               const FileStamp& stamp,
                                                               std::span<const std::uint8_t> file);
  // Whether keep() may still add the file.
  [[nodiscard]] bool is_wanted(std::int64_t item) const { return entries_->is_wanted(item); }
  void keep(std::int64_t item, const FileStamp& stamp, std::span<const std::uint8_t> file,
            std::span<const JpegPoint> points);
  // Drops the points of a file, because they are wrong. compact() frees their bytes.
  void drop(std::int64_t item) { entries_->forget(item); }
  // Whether dropped entries, such as those of changed files, take an eighth of bytes().
  [[nodiscard]] bool is_worth_compacting() const {
    const std::int64_t dropped = entries_->forgotten_bytes();
    return dropped > 0 && 8 * dropped >= bytes();
  }
  // Frees the bytes of dropped entries, also for files that found the index full. REQUIRES: no other thread uses the
  // index, and nobody uses points that find() gave before.
  void compact() { entries_->compact(); }

  [[nodiscard]] std::int64_t kept_items() const { return entries_->kept_items(); }
  [[nodiscard]] std::int64_t bytes() const { return entries_->bytes(); }
  // Whether entries were added since the index was loaded or saved.
  [[nodiscard]] bool has_news() const { return has_news_.load(std::memory_order_relaxed); }

  // `key` identifies the data; a file with another key is ErrorKind::not_found. ErrorKind::corrupt: the file is
  // damaged, and nothing was loaded. Loads as many entries as there is room for. load() and save() work in pieces.
  // REQUIRES: the index is empty.
  [[nodiscard]] Result<void> load(const std::filesystem::path& file, std::string_view key);
  // Replaces the file as a whole. Entries that other threads add meanwhile may be missing, and then count as new.
  // Errors of the system name the file, which is unchanged then.
  [[nodiscard]] Result<void> save(const std::filesystem::path& file, std::string_view key);

 private:
  JpegIndex(std::int64_t items, std::unique_ptr<SampleCache> entries);
  void put(std::int64_t item, std::span<const std::uint8_t> entry, bool is_checked);
  Result<void> write(const std::filesystem::path& file, std::string_view key) const;

  const std::int64_t items_;
  std::unique_ptr<SampleCache> entries_;
  // Whether an entry was made by this process, or its checksum was compared.
  std::unique_ptr<std::atomic<bool>[]> is_checked_;
  std::atomic<bool> has_news_ = false;
};

}  // namespace autotuned::input
