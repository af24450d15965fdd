// SPDX-License-Identifier: Apache-2.0
// Decodes CUPTI's records. This header needs no CUPTI types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiler/recorder/timeline_device.hpp"

namespace autotuned::profiler {

class CuptiApi;

// The smallest size, in bytes, of a record of this kind; 0 for kinds that CuptiRecords ignores.
[[nodiscard]] std::size_t cupti_record_bytes(std::uint32_t kind);

// Returns the text for the name pointer of a kernel's record.
using KernelName = std::function<std::string_view(const char* pointer)>;

// The beginning of a recording, and the offset of its clock.
struct RecordingClock {
  // On CUPTI's clock. Work that began earlier is left out.
  std::int64_t from_ns = 0;
  // CUPTI's clock minus CLOCK_MONOTONIC.
  std::int64_t offset_ns = 0;
};

// Takes buffers and records in any order, because CUPTI guarantees none; take() joins records that belong
// together. One thread at a time.
class CuptiRecords {
 public:
  // `api` iterates over the buffers and names calls; it must outlive this object. Records beyond
  // `most_records` are lost and counted. Kernel names that `name` does not know are read from their pointers.
  CuptiRecords(CuptiApi& api, std::int64_t most_records, KernelName name = {});

  // Copies all useful data from the buffer. Damage is counted and described, and the rest of that buffer
  // is left out.
  void add(std::uint8_t* buffer, std::size_t valid_bytes);

  // Returns everything added since the last take(), with times of CLOCK_MONOTONIC.
  [[nodiscard]] DeviceTimeline take(const RecordingClock& clock);

  // The number of records since the last take(), without those that only join others.
  [[nodiscard]] std::int64_t records() const { return records_; }

 private:
  // A fact about a correlation.
  struct Link {
    enum class What : std::uint32_t { operation, span, call };

    std::uint32_t correlation = 0;
    What what = What::operation;
    std::uint64_t value = 0;  // a ScopeId, or the start time of the call
  };
  class Links;

  // Adds a record that is complete in the buffer. `kind`: its first four bytes.
  void add_record(std::uint32_t kind, const std::uint8_t* record);
  void add_kernel(const std::uint8_t* record);
  template <class Record>
  void add_copy(const std::uint8_t* record);
  void add_fill(const std::uint8_t* record);
  void add_call(const std::uint8_t* record, bool is_driver);
  void add_wait(const std::uint8_t* record);
  void add_overhead(const std::uint8_t* record);
  void add_external(const std::uint8_t* record);
  [[nodiscard]] bool has_room();
  [[nodiscard]] bool has_times(std::uint64_t start, std::uint64_t end);
  void note_damage(std::string what);

  std::uint32_t kernel_name(const char* pointer);
  std::uint32_t call_name(std::uint32_t number, bool is_driver);
  std::uint32_t name_id(std::string text);

  CuptiApi& api_;
  std::int64_t most_records_;
  KernelName name_;
  bool knows_sizes_ = false;  // a later library may append to its records
  std::int64_t records_ = 0;
  DeviceTimeline timeline_;
  std::vector<Link> links_;
  std::unordered_map<std::string, std::uint32_t> name_ids_;
  std::unordered_map<const char*, std::uint32_t> kernel_names_;
  std::unordered_map<std::uint64_t, std::uint32_t> call_names_;
};

}  // namespace autotuned::profiler
