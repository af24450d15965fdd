// SPDX-License-Identifier: Apache-2.0
// What this process does to the files below one folder, and what a disk may hold of it when the power goes.
//
// recorded_disk.cpp has the place of open, write, ftruncate, fsync, rename, remove and others in the program that it is
// linked into: it passes each on to the system and, while a RecordedDisk lives, writes it down. A disk owes nobody what
// was not synced: the bytes of a file until fsync() of that file, its name until fsync() of the folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace autotuned {

// What becomes of that which nobody synced.
enum class Unsynced {
  lost,
  kept,
  names_kept,  // and the bytes lost, as by a file system that writes folders first
  by_coin,     // each name and each write
};

// Which syncs the disk heeds; one that does not heed all shows what a test is worth.
enum class Heeded { all, files_only, folders_only };

// One at a time. Files that are there before it are not looked at: begin with an empty folder. One thread.
class RecordedDisk {
 public:
  explicit RecordedDisk(std::filesystem::path folder);
  ~RecordedDisk();
  RecordedDisk(const RecordedDisk&) = delete;
  RecordedDisk& operator=(const RecordedDisk&) = delete;

  // So far.
  [[nodiscard]] std::size_t operations() const;
  // Puts into the empty folder `into` what the disk holds when the power goes after the first `operations`.
  void write_disk(const std::filesystem::path& into, std::size_t operations, Unsynced unsynced,
                  std::uint64_t seed = 0, Heeded heeded = Heeded::all) const;

  struct Record;

 private:
  std::unique_ptr<Record> record_;
};

}  // namespace autotuned
