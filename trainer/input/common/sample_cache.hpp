// SPDX-License-Identifier: Apache-2.0
// Samples as they are at some point of their way, in memory or in a file, so that the way up to there is made
// once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "trainer/input/common/sample.hpp"

namespace autotuned::input {

// Fills as samples come, until its bytes are used up; what has no room is made anew every time. Memory or disk
// space is taken from the system as it fills, none per sample, and given back at the end.
//
// Any number of threads at once, without locks.
class SampleCache {
 public:
  // For stored samples 0 .. items-1 and at most `most_bytes`, its own bookkeeping included.
  // ErrorKind::out_of_memory: there is not even so much address space.
  [[nodiscard]] static Result<std::unique_ptr<SampleCache>> create(std::int64_t items,
                                                                   std::int64_t most_bytes);
  // The same in a file without a name, on the file system of `folder`, that is gone with this process however
  // it ends. A disk that becomes full ends the filling and nothing else; what it can no longer read is made
  // anew. At most as large as the process may make a file (RLIMIT_FSIZE). Errors of the system name the folder.
  [[nodiscard]] static Result<std::unique_ptr<SampleCache>> create_in_file(
      std::int64_t items, std::int64_t most_bytes, const std::filesystem::path& folder);
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  // Its bytes stay where they are: in memory as long as this lives, out of a file in `room`, which grows as
  // needed, until that is used otherwise. REQUIRES (here and below): 0 <= item < items.
  [[nodiscard]] std::optional<Sample> find(std::int64_t item,
                                           std::vector<std::uint8_t>& room) const;
  // Whether it is there, without a look at it.
  [[nodiscard]] bool has(std::int64_t item) const;
  // Copies the sample, unless there is no room or somebody else has kept it or is about to.
  void keep(std::int64_t item, const Sample& sample);
  // The sample is as if it had not been kept, but for its room.
  void forget(std::int64_t item);
  // Moves what is kept together, so that the room of what was forgotten serves again, also for those that found
  // none. Without memory to sort them by, nothing happens. REQUIRES: in memory; nobody else uses this
  // meanwhile, nor afterwards what find() gave before.
  void compact();
  // Whether keep() may still do something about it.
  [[nodiscard]] bool is_wanted(std::int64_t item) const;

  [[nodiscard]] bool is_in_file() const { return file_.is_open(); }
  // Asks the processor, or of a file the system, to fetch the sample, if it is there, and does not wait for it.
  void will_need(std::int64_t item) const;
  // Of a file: everything is on the disk, and the system's memory of it is given up, so that reading shows
  // what reading from the disk costs.
  void forget_memory() const;

  [[nodiscard]] std::int64_t kept_items() const { return kept_items_.load(); }
  // Of what is kept, with the bookkeeping, and the room of what was forgotten.
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t forgotten_bytes() const { return forgotten_.load(); }

 private:
  using Place =
      std::atomic<std::uint64_t>;  // where, and how large; or one of those in the source file

  SampleCache(std::int64_t items, std::int64_t most_bytes);
  // At that place. False: the disk does not take it.
  bool write(std::size_t at, const Sample& sample);
  [[nodiscard]] std::optional<Sample> read(std::uint64_t place,
                                           std::vector<std::uint8_t>& room) const;

  std::int64_t items_;
  std::unique_ptr<Place[]> places_;
  std::size_t size_;  // of all samples
  std::uint8_t* memory_ = nullptr;
  Descriptor file_;  // instead
  std::atomic<std::size_t> used_;
  std::atomic<bool> is_disk_full_ = false;
  std::atomic<std::int64_t> kept_items_ = 0;
  std::atomic<std::int64_t> forgotten_ = 0;  // bytes
};

}  // namespace autotuned::input
