// SPDX-License-Identifier: Apache-2.0
// A layer below SQLite that can take the power away, or fail a call.
//
// It passes everything on to the real file system, and keeps beside it what a disk would hold: the
// bytes that were synced, and the writes since. At the chosen operation the machine stops: later calls
// fail, and of the writes that nobody synced each is kept, lost or torn by a coin.
#pragma once

#include <cstdint>
#include <filesystem>

namespace autotuned::storage {

enum class Fault {
  power_loss,   // from the chosen operation on, nothing works any more
  disk_full,    // writes fail with SQLITE_FULL from the chosen operation on
  write_error,  // the chosen write, sync or truncation fails with SQLITE_IOERR, once
};

// Registers itself as the default VFS of this process while it lives. One at a time, one thread.
class PowerVfs {
 public:
  PowerVfs();
  ~PowerVfs();
  PowerVfs(const PowerVfs&) = delete;
  PowerVfs& operator=(const PowerVfs&) = delete;

  // Forgets all files, starts counting, and lets `fault` happen at that operation (0: never). Writes,
  // syncs, truncations and deletions count.
  void arm(Fault fault, std::uint64_t operation);
  [[nodiscard]] std::uint64_t operations() const;

  // Puts into `folder` what the disk holds after the power loss; if there was none, after one now.
  void write_disk(const std::filesystem::path& folder, std::uint64_t seed) const;
};

}  // namespace autotuned::storage
