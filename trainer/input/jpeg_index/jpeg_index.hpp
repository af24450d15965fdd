// SPDX-License-Identifier: Apache-2.0
// Where the rows of JPEG files begin in their code, remembered from the first time that each is read, so that
// later only the part of it is read that a crop needs.
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

// In memory, within a number of bytes; what has no room is read as if there were no index. Any number of
// threads at once, without locks, but for load().
class JpegIndex {
 public:
  // For stored samples 0 .. items-1 and at most `most_bytes`. ErrorKind::out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<JpegIndex>> create(std::int64_t items,
                                                                 std::int64_t most_bytes);

  // The points of a file, none where it is one without; valid as long as this lives. Nothing where it is not
  // known yet, or not as it is now. `file` is all of it: of an entry that was loaded, its checksum is compared
  // the first time. REQUIRES (here and below): 0 <= item < items.
  [[nodiscard]] std::optional<std::span<const JpegPoint>> find(std::int64_t item,
                                                               const FileStamp& stamp,
                                                               std::span<const std::uint8_t> file);
  // Whether keep() may still do something about it.
  [[nodiscard]] bool is_wanted(std::int64_t item) const { return entries_->is_wanted(item); }
  void keep(std::int64_t item, const FileStamp& stamp, std::span<const std::uint8_t> file,
            std::span<const JpegPoint> points);
  // Its points were of no use. Their room serves again after compact().
  void drop(std::int64_t item) { entries_->forget(item); }
  // Whether what was dropped, such as entries of files that have changed, takes an eighth of bytes().
  [[nodiscard]] bool is_worth_compacting() const {
    const std::int64_t dropped = entries_->forgotten_bytes();
    return dropped > 0 && 8 * dropped >= bytes();
  }
  // Gives its room back, also to files that found none. REQUIRES: nobody else uses this meanwhile, nor
  // afterwards points that find() gave before.
  void compact() { entries_->compact(); }

  [[nodiscard]] std::int64_t kept_items() const { return entries_->kept_items(); }
  [[nodiscard]] std::int64_t bytes() const { return entries_->bytes(); }
  // Whether something was kept since it was loaded or saved.
  [[nodiscard]] bool has_news() const { return has_news_.load(std::memory_order_relaxed); }

  // `key` tells the data from others; another one in the file is ErrorKind::not_found. ErrorKind::corrupt: the
  // file is damaged, and nothing was taken from it. Takes as much as there is room for. Both read and write a
  // piece at a time. REQUIRES: nothing was kept yet.
  [[nodiscard]] Result<void> load(const std::filesystem::path& file, std::string_view key);
  // Replaces the file as a whole. What others keep meanwhile may be missing in it, and is news then. Errors of
  // the system name the file, which is as it was.
  [[nodiscard]] Result<void> save(const std::filesystem::path& file, std::string_view key);

 private:
  JpegIndex(std::int64_t items, std::unique_ptr<SampleCache> entries);
  void put(std::int64_t item, std::span<const std::uint8_t> entry, bool is_checked);
  Result<void> write(const std::filesystem::path& file, std::string_view key) const;

  const std::int64_t items_;
  std::unique_ptr<SampleCache> entries_;
  // Whether an entry is of this process, or its checksum was compared.
  std::unique_ptr<std::atomic<bool>[]> is_checked_;
  std::atomic<bool> has_news_ = false;
};

}  // namespace autotuned::input
