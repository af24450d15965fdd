// SPDX-License-Identifier: Apache-2.0
// CUPTI's records made by hand, and buffers of them.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace autotuned::profiler {

struct SampleTimes {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

inline CUpti_ActivityKernel10 sample_kernel(const char* name, std::uint32_t correlation,
                                            SampleTimes times) {
  CUpti_ActivityKernel10 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.name = name;
  record.correlationId = correlation;
  record.start = times.start;
  record.end = times.end;
  record.contextId = 1;
  record.streamId = 7;
  record.gridX = 4;
  record.gridY = record.gridZ = 1;
  record.blockX = 128;
  record.blockY = record.blockZ = 1;
  record.registersPerThread = 32;
  return record;
}

inline CUpti_ActivityMemcpy6 sample_copy(CUpti_ActivityMemcpyKind direction,
                                         CUpti_ActivityMemoryKind source,
                                         CUpti_ActivityMemoryKind destination, std::uint64_t bytes,
                                         std::uint32_t correlation, SampleTimes times) {
  CUpti_ActivityMemcpy6 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copyKind = static_cast<std::uint8_t>(direction);
  record.srcKind = static_cast<std::uint8_t>(source);
  record.dstKind = static_cast<std::uint8_t>(destination);
  record.bytes = bytes;
  record.correlationId = correlation;
  record.start = times.start;
  record.end = times.end;
  record.contextId = 1;
  record.streamId = 7;
  return record;
}

inline CUpti_ActivityMemset4 sample_fill(std::uint64_t bytes, std::uint32_t correlation,
                                         SampleTimes times) {
  CUpti_ActivityMemset4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.bytes = bytes;
  record.correlationId = correlation;
  record.start = times.start;
  record.end = times.end;
  record.contextId = 1;
  record.streamId = 7;
  return record;
}

inline CUpti_ActivityAPI sample_call(CUpti_CallbackId number, std::uint32_t thread,
                                     std::uint32_t correlation, SampleTimes times) {
  CUpti_ActivityAPI record{};
  record.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  record.cbid = number;
  record.threadId = thread;
  record.correlationId = correlation;
  record.start = times.start;
  record.end = times.end;
  return record;
}

inline CUpti_ActivityExternalCorrelation sample_external(CUpti_ExternalCorrelationKind kind,
                                                         std::uint64_t id,
                                                         std::uint32_t correlation) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = kind;
  record.externalId = id;
  record.correlationId = correlation;
  return record;
}

inline CUpti_ActivitySynchronization2 sample_wait(CUpti_ActivitySynchronizationType type,
                                                  std::uint32_t stream, std::uint32_t correlation,
                                                  SampleTimes times) {
  CUpti_ActivitySynchronization2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = type;
  record.contextId = 1;
  record.streamId = stream;
  record.correlationId = correlation;
  record.start = times.start;
  record.end = times.end;
  return record;
}

inline CUpti_ActivityOverhead3 sample_overhead(CUpti_ActivityOverheadKind kind,
                                               std::uint32_t thread, SampleTimes times) {
  CUpti_ActivityOverhead3 record{};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = kind;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.threadId = thread;
  record.start = times.start;
  record.end = times.end;
  return record;
}

// Records one after the other, as CUPTI lays them out.
class SampleBuffer {
 public:
  template <class Record>
  SampleBuffer& add(const Record& record) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(record));
    std::memcpy(bytes_.data() + at, &record, sizeof(record));
    return *this;
  }
  SampleBuffer& cut(std::size_t bytes) {
    bytes_.resize(bytes_.size() - bytes);
    return *this;
  }
  [[nodiscard]] std::uint8_t* data() { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::uint8_t> bytes_;  // operator new aligns it for any record
};

}  // namespace autotuned::profiler
