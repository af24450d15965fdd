// SPDX-License-Identifier: Apache-2.0
// A cache of samples after some of their transforms, in memory or in a file.
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

// Samples are added until the bytes are used up; later ones are not kept. Memory or disk space is taken from the
// system while the cache fills, in large pieces, and given back at the end.
//
// Any number of threads at once, without locks.
class SampleCache {
 public:
  // Makes a cache of stored samples 0 .. items-1 with at most `most_bytes`, its own bookkeeping included.
  // ErrorKind::out_of_memory: no address space of that size.
  [[nodiscard]] static Result<std::unique_ptr<SampleCache>> create(std::int64_t items,
                                                                   std::int64_t most_bytes);
  // The same in a file without a name on the file system of `folder`; the file disappears with this process, however
  // the process ends. A full disk only ends the filling, and samples that cannot be read back count as not kept. At
  // most as large as the process may make a file (RLIMIT_FSIZE). Errors of the system name the folder.
  [[nodiscard]] static Result<std::unique_ptr<SampleCache>> create_in_file(
      std::int64_t items, std::int64_t most_bytes, const std::filesystem::path& folder);
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  // The bytes are valid as long as the cache if it is in memory; a cache in a file reads them into `room`, which
  // grows as needed. REQUIRES (here and below): 0 <= item < items.
  [[nodiscard]] std::optional<Sample> find(std::int64_t item,
                                           std::vector<std::uint8_t>& room) const;
  // Whether the sample is kept. Does not read it.
  [[nodiscard]] bool has(std::int64_t item) const;
  // Copies the sample into the cache, unless the cache is full or another thread has kept the sample or is doing so.
  void keep(std::int64_t item, const Sample& sample);
  // The sample counts as not kept. Its bytes stay in use until compact().
  void forget(std::int64_t item);
  // Moves the kept samples together and frees the bytes of forgotten ones, also for samples that found the cache
  // full. Does nothing if there is no memory to sort them. REQUIRES: a cache in memory; no other thread uses it, and
  // nobody uses bytes that find() gave before.
  void compact();
  // Whether keep() may still keep the sample.
  [[nodiscard]] bool is_wanted(std::int64_t item) const;

  [[nodiscard]] bool is_in_file() const { return file_.is_open(); }
  // Asks the processor, or the system for a cache in a file, to fetch a kept sample. Does not wait for it.
  void will_need(std::int64_t item) const;
  // Cache in a file: writes everything to the disk and drops it from the page cache, so that later reads cost what
  // reads from the disk cost.
  void forget_memory() const;

  [[nodiscard]] std::int64_t kept_items() const { return kept_items_.load(); }
  // Kept and forgotten samples, with the bookkeeping.
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t forgotten_bytes() const { return forgotten_.load(); }

 private:
  using Place =
      std::atomic<std::uint64_t>;  // position and size; or a state that the source file names

  SampleCache(std::int64_t items, std::int64_t most_bytes);
  // Writes at this position. False: the disk is full or failed.
  bool write(std::size_t at, const Sample& sample);
  [[nodiscard]] std::optional<Sample> read(std::uint64_t place,
                                           std::vector<std::uint8_t>& room) const;

  std::int64_t items_;
  std::unique_ptr<Place[]> places_;
  std::size_t size_;  // of all samples
  std::uint8_t* memory_ = nullptr;
  Descriptor file_;  // of a cache in a file, instead of memory_
  std::atomic<std::size_t> used_;
  std::atomic<bool> is_disk_full_ = false;
  std::atomic<std::int64_t> kept_items_ = 0;
  std::atomic<std::int64_t> forgotten_ = 0;  // bytes
};

}  // namespace autotuned::input
