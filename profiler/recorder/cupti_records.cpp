// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/cupti_records.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "profiler/recorder/cupti_api.hpp"

namespace autotuned::profiler {
namespace {

constexpr std::size_t kMaxDamage = 8;  // damages that are described; all are counted
constexpr std::size_t kLongestName = 16'384;
// The precision with which CUPTI converts the clock of a device to that of the host.
constexpr std::int64_t kClockErrorNs = 20'000;
// 146 years: sums and differences of smaller times do not overflow.
constexpr std::uint64_t kLatestNs = std::uint64_t{1} << 62U;

// Copies the record, because records are packed and need not be aligned.
template <class Record>
Record read(const std::uint8_t* bytes) {
  Record record;
  std::memcpy(&record, bytes, sizeof(record));
  return record;
}

// Reads the number of an enumeration. A damaged record may have a number that the enumeration lacks.
#define AUTOTUNED_NUMBER_OF(record, type, field) \
  read<std::uint32_t>((record) + offsetof(type, field))

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

// Removes the version from names such as cudaLaunchKernel_v7000, because other programs show them without it. Functions of the driver have
// versions in their own names.
std::string_view without_version(std::string_view name) {
  const std::size_t at = name.rfind("_v");
  if (at == std::string_view::npos || name.size() - at < 6) return name;
  const std::string_view digits = name.substr(at + 2);
  const bool is_version = std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return is_version ? name.substr(0, at) : name;
}

// Functions of the driver that launch work without the runtime, for generated kernels and some libraries; each also in the form for
// programs with a default stream for each thread.
constexpr std::array<CUpti_CallbackId, 26> kDriverLaunches = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz,
};

std::int64_t bounded(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min(value, kLatestNs));
}

// Fills the fields that all work of a device has.
template <class Record, class Work>
void set_work(const Record& raw, Work& work) {
  work.start_ns = bounded(raw.start);
  work.end_ns = bounded(raw.end);
  work.correlation = raw.correlationId;
  work.device = raw.deviceId;
  work.context = raw.contextId;
  work.stream = raw.streamId;
}

}  // namespace

std::size_t cupti_record_bytes(std::uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    default:
      return 0;
  }
}

CuptiRecords::CuptiRecords(CuptiApi& api, std::int64_t most_records, KernelName name)
    : api_(api), most_records_(most_records), name_(std::move(name)) {
  std::uint32_t version = 0;
  knows_sizes_ = api_.get_version(&version) == CUPTI_SUCCESS && version == CUPTI_API_VERSION;
}

void CuptiRecords::add(std::uint8_t* buffer, std::size_t valid_bytes) {
  // CUPTI's iteration trusts the buffer, so its size is checked first.
  constexpr std::size_t kHead = sizeof(CUpti_Activity);
  const std::size_t whole = valid_bytes / kHead * kHead;
  const auto at_byte = [&](std::size_t offset) {
    return "at byte " + std::to_string(offset) + " of " + std::to_string(valid_bytes);
  };
  CUpti_Activity* record = nullptr;
  std::size_t next = 0;  // no record begins before this byte
  bool is_next_exact = knows_sizes_;
  while (next + kHead <= whole) {
    const CUptiResult result = api_.get_next_record(buffer, whole, &record);
    // The library also reports the end of the records if it cannot continue.
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED && !is_next_exact) break;
    if (result != CUPTI_SUCCESS) {
      return note_damage("a record is cut off, incomplete or of no known kind " + at_byte(next) +
                         " (" + api_.result_text(result) + ")");
    }
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(record);
    const auto offset = static_cast<std::size_t>(bytes - buffer);
    if (bytes < buffer + next || offset + kHead > whole) {
      return note_damage("a record lies outside of its buffer, after the one " + at_byte(next));
    }
    const auto kind = read<std::uint32_t>(bytes);
    const std::size_t size = std::max(cupti_record_bytes(kind), kHead);
    if (size > whole - offset) return note_damage("the last record is cut off " + at_byte(offset));
    add_record(kind, bytes);
    next = offset + size;
    is_next_exact = knows_sizes_ && cupti_record_bytes(kind) > 0;
  }
  if (whole != valid_bytes) note_damage("the buffer ends within a record " + at_byte(whole));
}

bool CuptiRecords::has_room() {
  if (records_ >= most_records_) {
    ++timeline_.losses.over_limit;
    return false;
  }
  ++records_;
  return true;
}

// The device had no room for the times, or they are not valid.
bool CuptiRecords::has_times(std::uint64_t start, std::uint64_t end) {
  if (start > 0 && start <= end && end < kLatestNs) return true;
  ++timeline_.losses.untimed;
  return false;
}

void CuptiRecords::add_kernel(const std::uint8_t* record) {
  const auto raw = read<CUpti_ActivityKernel10>(record);
  if (!has_times(raw.start, raw.end) || !has_room()) return;
  DeviceKernel& kernel = timeline_.kernels.emplace_back();
  set_work(raw, kernel);
  kernel.name = kernel_name(raw.name);
  kernel.grid = {raw.gridX, raw.gridY, raw.gridZ};
  kernel.block = {raw.blockX, raw.blockY, raw.blockZ};
  kernel.registers_per_thread = raw.registersPerThread;
  kernel.opts_in_shared = AUTOTUNED_NUMBER_OF(record, CUpti_ActivityKernel10, shmemLimitConfig) ==
                          CUPTI_FUNC_SHMEM_LIMIT_OPTIN;
  kernel.static_shared_bytes = raw.staticSharedMemory;
  kernel.dynamic_shared_bytes = raw.dynamicSharedMemory;
  kernel.queued_ns = bounded(raw.queued);
  kernel.graph = raw.graphId;
  kernel.graph_node = raw.graphNodeId;
}

// Copies within a device or from and to the host, and between devices. The fields have the same names.
template <class Record>
void CuptiRecords::add_copy(const std::uint8_t* record) {
  const auto raw = read<Record>(record);
  if (!has_times(raw.start, raw.end) || !has_room()) return;
  DeviceCopy& copy = timeline_.copies.emplace_back();
  set_work(raw, copy);
  copy.bytes = bounded(raw.bytes);
  copy.direction = raw.copyKind;
  copy.source = raw.srcKind;
  copy.destination = raw.dstKind;
}

void CuptiRecords::add_fill(const std::uint8_t* record) {
  const auto raw = read<CUpti_ActivityMemset4>(record);
  if (!has_times(raw.start, raw.end) || !has_room()) return;
  DeviceFill& fill = timeline_.fills.emplace_back();
  set_work(raw, fill);
  fill.bytes = bounded(raw.bytes);
  fill.memory = raw.memoryKind;
}

void CuptiRecords::add_call(const std::uint8_t* record, bool is_driver) {
  const auto raw = read<CUpti_ActivityAPI>(record);
  if (is_driver && std::ranges::find(kDriverLaunches, raw.cbid) == kDriverLaunches.end()) return;
  if (!has_times(raw.start, raw.end) || !has_room()) return;
  HostCall& call = timeline_.calls.emplace_back();
  call.start_ns = bounded(raw.start);
  call.end_ns = bounded(raw.end);
  call.correlation = raw.correlationId;
  call.name = call_name(raw.cbid, is_driver);
  call.number = raw.cbid;
  call.thread = raw.threadId;
  call.is_driver = is_driver;
  links_.push_back({raw.correlationId, Link::What::call, raw.start});
}

void CuptiRecords::add_wait(const std::uint8_t* record) {
  const auto raw = read<CUpti_ActivitySynchronization2>(record);
  if (!has_times(raw.start, raw.end) || !has_room()) return;
  DeviceWait& wait = timeline_.waits.emplace_back();
  wait.start_ns = bounded(raw.start);
  wait.end_ns = bounded(raw.end);
  wait.correlation = raw.correlationId;
  wait.context = raw.contextId;
  wait.stream = raw.streamId;
  wait.kind = AUTOTUNED_NUMBER_OF(record, CUpti_ActivitySynchronization2, type);
}

void CuptiRecords::add_overhead(const std::uint8_t* record) {
  const auto raw = read<CUpti_ActivityOverhead3>(record);
  if (raw.overheadData != nullptr) api_.release(raw.overheadData);
  if (!has_times(raw.start, raw.end) || !has_room()) return;
  const bool is_of_thread = AUTOTUNED_NUMBER_OF(record, CUpti_ActivityOverhead3, objectKind) ==
                            CUPTI_ACTIVITY_OBJECT_THREAD;
  timeline_.overheads.push_back(
      {.start_ns = bounded(raw.start),
       .end_ns = bounded(raw.end),
       .kind = AUTOTUNED_NUMBER_OF(record, CUpti_ActivityOverhead3, overheadKind),
       .thread = is_of_thread ? raw.objectId.pt.threadId : 0});
}

void CuptiRecords::add_external(const std::uint8_t* record) {
  const auto raw = read<CUpti_ActivityExternalCorrelation>(record);
  const auto kind = AUTOTUNED_NUMBER_OF(record, CUpti_ActivityExternalCorrelation, externalKind);
  const bool is_operation = kind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  const bool is_span = kind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
  if (!is_operation && !is_span) return;
  // There are two for each call, and a link for the call itself.
  if (links_.size() / 3 >= static_cast<std::size_t>(most_records_)) {
    ++timeline_.losses.over_limit;
    return;
  }
  links_.push_back(
      {raw.correlationId, is_span ? Link::What::span : Link::What::operation, raw.externalId});
}

void CuptiRecords::add_record(std::uint32_t kind, const std::uint8_t* record) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      return add_kernel(record);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return add_copy<CUpti_ActivityMemcpy6>(record);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return add_copy<CUpti_ActivityMemcpyPtoP4>(record);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return add_fill(record);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return add_call(record, /*is_driver=*/false);
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return add_call(record, /*is_driver=*/true);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return add_external(record);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return add_wait(record);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return add_overhead(record);
    default:
      return;
  }
}

void CuptiRecords::note_damage(std::string what) {
  DeviceLosses& losses = timeline_.losses;
  ++losses.damaged_buffers;
  if (losses.damage.size() < kMaxDamage) losses.damage.push_back(std::move(what));
}

// All records of a kernel share the pointer, which belongs to CUPTI: the text must be copied.
std::uint32_t CuptiRecords::kernel_name(const char* pointer) {
  const auto [found, is_new] = kernel_names_.try_emplace(pointer, 0);
  if (is_new) {
    std::string text = "unknown kernel";
    if (name_) {
      text = name_(pointer);
    } else if (pointer != nullptr) {
      text = demangled(std::string(pointer, ::strnlen(pointer, kLongestName)));
    }
    found->second = name_id(std::move(text));
  }
  return found->second;
}

std::uint32_t CuptiRecords::call_name(std::uint32_t number, bool is_driver) {
  const std::uint64_t key = (std::uint64_t{is_driver} << 32U) | number;
  const auto [found, is_new] = call_names_.try_emplace(key, 0);
  if (is_new) {
    const char* name = nullptr;
    const CUptiResult result = api_.get_callback_name(
        is_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, number, &name);
    std::string text = (is_driver ? "driver call " : "runtime call ") + std::to_string(number);
    if (result == CUPTI_SUCCESS && name != nullptr) {
      text = is_driver ? std::string_view(name) : without_version(name);
    }
    found->second = name_id(std::move(text));
  }
  return found->second;
}

std::uint32_t CuptiRecords::name_id(std::string text) {
  const auto [found, is_new] =
      name_ids_.try_emplace(std::move(text), static_cast<std::uint32_t>(name_ids_.size()));
  if (is_new) timeline_.names.push_back(found->first);
  return found->second;
}

// All links, sorted by correlation. Callers ask in nearly the same order, so each search begins where the last one ended.
class CuptiRecords::Links {
 public:
  explicit Links(std::vector<Link> links) : links_(std::move(links)) {
    const auto key = [](const Link& link) {
      return std::tuple(link.correlation, link.what, link.value);
    };
    if (!std::ranges::is_sorted(links_, {}, key)) std::ranges::sort(links_, {}, key);
  }

  struct Known {
    ScopeId operation = 0;
    ScopeId span = 0;
    std::optional<std::int64_t>
        call_ns;  // the earliest: a call of the runtime may hold one of the driver
  };
  [[nodiscard]] Known of(std::uint32_t correlation) {
    constexpr std::ptrdiff_t kNear = 64;
    const auto near = links_.begin() + std::min<std::ptrdiff_t>(at_, std::ssize(links_));
    const auto far = links_.begin() + std::min<std::ptrdiff_t>(at_ + kNear, std::ssize(links_));
    // Less, and not less or equal, because the first of equal links is wanted.
    const bool is_near = near != far && near->correlation < correlation &&
                         correlation <= std::prev(far)->correlation;
    auto link = is_near ? std::ranges::lower_bound(near, far, correlation, {}, &Link::correlation)
                        : std::ranges::lower_bound(links_, correlation, {}, &Link::correlation);
    at_ = std::max<std::ptrdiff_t>(link - links_.begin() - kNear / 2, 0);
    Known known;
    for (; link != links_.end() && link->correlation == correlation; ++link) {
      if (link->what == Link::What::operation) known.operation = link->value;
      if (link->what == Link::What::span) known.span = link->value;
      if (link->what == Link::What::call && !known.call_ns) known.call_ns = bounded(link->value);
    }
    return known;
  }

 private:
  std::vector<Link> links_;
  std::ptrdiff_t at_ = 0;
};

DeviceTimeline CuptiRecords::take(const RecordingClock& clock) {
  Links links(std::exchange(links_, {}));
  DeviceTimeline timeline = std::exchange(timeline_, {});
  DeviceLosses& losses = timeline.losses;
  const auto join = [&](auto& events, bool is_work) {
    std::erase_if(events, [&](const auto& event) { return event.start_ns < clock.from_ns; });
    for (auto& event : events) {
      const Links::Known known = links.of(event.correlation);
      event.operation = known.operation;
      event.span = known.span;
      if (is_work && !known.call_ns) ++losses.without_call;
      if (is_work && known.call_ns && event.start_ns < *known.call_ns - kClockErrorNs) {
        ++losses.before_launch;
      }
      event.start_ns -= clock.offset_ns;
      event.end_ns -= clock.offset_ns;
    }
  };
  join(timeline.kernels, true);
  join(timeline.copies, true);
  join(timeline.fills, true);
  join(timeline.calls, false);
  join(timeline.waits, false);
  for (DeviceKernel& kernel : timeline.kernels)
    kernel.queued_ns -= kernel.queued_ns > 0 ? clock.offset_ns : 0;
  std::erase_if(timeline.overheads,
                [&](const auto& event) { return event.start_ns < clock.from_ns; });
  for (DeviceOverhead& overhead : timeline.overheads) {
    overhead.start_ns -= clock.offset_ns;
    overhead.end_ns -= clock.offset_ns;
  }
  // Ids of names belong to one timeline. A kernel may be unloaded, and another one get its pointer.
  name_ids_.clear();
  kernel_names_.clear();
  call_names_.clear();
  records_ = 0;
  return timeline;
}

}  // namespace autotuned::profiler
