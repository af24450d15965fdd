// SPDX-License-Identifier: Apache-2.0
#include "tests/profiler/recorder/cupti_fake.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "profiler/recorder/cupti_records.hpp"

namespace autotuned::profiler {
namespace {

// What the library steps over: also a kind that nobody asks for. That NVIDIA's own library steps alike is tested where it is
// there (cupti_records_test.cpp).
std::size_t step_of(std::uint32_t kind) {
  return kind == CUPTI_ACTIVITY_KIND_CONTEXT ? sizeof(CUpti_ActivityContext3)
                                             : cupti_record_bytes(kind);
}

}  // namespace

template <class Record>
void FakeCupti::write_work(CUpti_CallbackId number, std::uint32_t correlation, const FakeWork& work,
                           const Record& record) {
  if (works_before_calls) write(record);
  write_call(number, correlation, work.call);
  if (!works_before_calls) write(record);
}

void FakeCupti::write_call(CUpti_CallbackId number, std::uint32_t correlation, SampleTimes times) {
  std::vector<CUpti_ActivityExternalCorrelation> externals;
  {
    const std::scoped_lock lock(mutex_);
    for (const int kind :
         {CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1}) {
      const auto found = scopes_.find({std::this_thread::get_id(), kind});
      if (found == scopes_.end() || found->second.empty()) continue;
      externals.push_back(sample_external(static_cast<CUpti_ExternalCorrelationKind>(kind),
                                          found->second.back(), correlation));
    }
  }
  for (const CUpti_ActivityExternalCorrelation& external : externals)
    write(external);
  write(sample_call(number, static_cast<std::uint32_t>(::gettid()), correlation, times));
}

std::uint32_t FakeCupti::next_correlation() {
  const std::scoped_lock lock(mutex_);
  return ++last_correlation_;
}

std::uint32_t FakeCupti::launch(const char* name, const FakeWork& work, std::uint32_t grid,
                                std::uint32_t block) {
  const std::uint32_t correlation = next_correlation();
  auto record = sample_kernel(name, correlation, work.work);
  record.gridX = static_cast<std::int32_t>(grid);
  record.blockX = static_cast<std::int32_t>(block);
  write_work(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, correlation, work, record);
  return correlation;
}

std::uint32_t FakeCupti::copy(CUpti_ActivityMemoryKind host, std::uint64_t bytes,
                              const FakeWork& work) {
  const std::uint32_t correlation = next_correlation();
  write_work(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, correlation, work,
             sample_copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, host, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
                         bytes, correlation, work.work));
  return correlation;
}

std::uint32_t FakeCupti::fill(std::uint64_t bytes, const FakeWork& work) {
  const std::uint32_t correlation = next_correlation();
  write_work(CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, correlation, work,
             sample_fill(bytes, correlation, work.work));
  return correlation;
}

std::uint32_t FakeCupti::synchronize(SampleTimes times) {
  const std::uint32_t correlation = next_correlation();
  write_call(CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, correlation, times);
  write(sample_wait(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, 7, correlation, times));
  return correlation;
}

void FakeCupti::overhead(CUpti_ActivityOverheadKind kind, SampleTimes times) {
  write(sample_overhead(kind, static_cast<std::uint32_t>(::gettid()), times));
}

void FakeCupti::fail_fatally() {
  if (tells_fatal_) callback_(user_, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR, nullptr);
}

void FakeCupti::write_locked(const void* record, std::size_t bytes) {
  if (buffer_ != nullptr && buffer_bytes_ - used_bytes_ < bytes) complete_locked();
  if (buffer_ == nullptr) {
    std::size_t most_records = 0;
    requested_(&buffer_, &buffer_bytes_, &most_records);
    used_bytes_ = 0;
    if (buffer_ != nullptr && wants_zeroed_) {
      found_dirty_ = found_dirty_ || std::any_of(buffer_, buffer_ + buffer_bytes_,
                                                 [](std::uint8_t byte) { return byte != 0; });
    }
  }
  if (buffer_ == nullptr) {
    ++dropped_;
    return;
  }
  std::memcpy(buffer_ + used_bytes_, record, bytes);
  used_bytes_ += bytes;
}

void FakeCupti::complete_locked() {
  if (buffer_ == nullptr) return;
  completed_(nullptr, 0, buffer_, buffer_bytes_, used_bytes_);
  buffer_ = nullptr;
}

void FakeCupti::hold_flush() {
  const std::scoped_lock lock(mutex_);
  is_flush_held_ = true;
}

void FakeCupti::release_flush() {
  const std::scoped_lock lock(mutex_);
  is_flush_held_ = false;
  changed_.notify_all();
}

void FakeCupti::wait_until_flushing() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return flushing_ > 0; });
}

void FakeCupti::wait_until_flushed() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return flushing_ == 0; });
}

std::set<int> FakeCupti::kinds() const {
  const std::scoped_lock lock(mutex_);
  return kinds_;
}

int FakeCupti::open_scopes() const {
  const std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [place, ids] : scopes_)
    count += ids.size();
  return static_cast<int>(count);
}

CUptiResult FakeCupti::get_version(std::uint32_t* result) {
  *result = version;
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::get_timestamp(std::uint64_t* time) {
  if (!tells_time) return CUPTI_ERROR_UNKNOWN;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = static_cast<std::uint64_t>(now.tv_sec * 1'000'000'000 + now.tv_nsec + clock_shift_ns);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::get_callback_name(CUpti_CallbackDomain domain, std::uint32_t id,
                                         const char** name) {
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    for (const auto& [number, text] :
         {std::pair{CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel_v7000"},
          std::pair{CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, "cudaMemcpyAsync_v3020"},
          std::pair{CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, "cudaMemsetAsync_v3020"},
          std::pair{CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020,
                    "cudaStreamSynchronize_v3020"}}) {
      if (static_cast<std::uint32_t>(number) != id) continue;
      *name = text;
      return CUPTI_SUCCESS;
    }
  }
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) {
    *name = "cuLaunchKernel";
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

const char* FakeCupti::result_text(CUptiResult result) {
  return result == CUPTI_ERROR_INVALID_KIND ? "CUPTI_ERROR_INVALID_KIND" : "CUPTI_ERROR_FAKE";
}

CUptiResult FakeCupti::subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                 void* user, CUpti_SubscriberParams* parameters) {
  if (!with_driver) return CUPTI_ERROR_UNKNOWN;  // as the library does
  if (!holder.empty() || is_subscribed_) {
    const std::string name = is_subscribed_ ? "this test" : holder;
    if (parameters->oldSubscriberSize > name.size())
      std::memcpy(parameters->oldSubscriberName, name.c_str(), name.size() + 1);
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  callback_ = callback;
  user_ = user;
  is_subscribed_ = true;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(this);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::unsubscribe(CUpti_SubscriberHandle /*subscriber*/) {
  is_subscribed_ = false;
  tells_fatal_ = false;
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::enable_callback(std::uint32_t enable, CUpti_SubscriberHandle /*subscriber*/,
                                       CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  if (domain == CUPTI_CB_DOMAIN_STATE && id == CUPTI_CBID_STATE_FATAL_ERROR) {
    tells_fatal_ = enable != 0;
  }
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::register_callbacks(CUpti_BuffersCallbackRequestFunc requested,
                                          CUpti_BuffersCallbackCompleteFunc completed) {
  const std::scoped_lock lock(mutex_);
  requested_ = requested;
  completed_ = completed;
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::set_attribute(CUpti_ActivityAttribute attribute, std::size_t* bytes,
                                     void* value) {
  if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER && *bytes == 1) {
    wants_zeroed_ = *static_cast<std::uint8_t*>(value) != 0;
  }
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::set_thread_id_type(CUpti_ActivityThreadIdType type) {
  thread_id_type_ = type;
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::enable(CUpti_ActivityKind kind) {
  if (refused_kinds.contains(kind)) return CUPTI_ERROR_NOT_COMPATIBLE;
  const std::scoped_lock lock(mutex_);
  kinds_.insert(kind);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::disable(CUpti_ActivityKind kind) {
  const std::scoped_lock lock(mutex_);
  kinds_.erase(kind);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::enable_runtime_call(CUpti_CallbackId /*id*/, std::uint8_t /*enable*/) {
  return CUPTI_SUCCESS;
}
CUptiResult FakeCupti::enable_driver_call(CUpti_CallbackId id, std::uint8_t enable) {
  const std::scoped_lock lock(mutex_);
  if (enable != 0) {
    quiet_driver_calls_.erase(id);
  } else {
    quiet_driver_calls_.insert(id);
  }
  return CUPTI_SUCCESS;
}
CUptiResult FakeCupti::enable_all_sync_records(std::uint8_t /*enable*/) {
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::push_external(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  scopes_[{std::this_thread::get_id(), kind}].push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::pop_external(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
  const std::scoped_lock lock(mutex_);
  auto& ids = scopes_[{std::this_thread::get_id(), kind}];
  if (ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = ids.back();
  ids.pop_back();
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::flush_all(std::uint32_t /*flag*/) {
  std::unique_lock lock(mutex_);
  ++flushing_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !is_flush_held_; });
  complete_locked();
  --flushing_;
  changed_.notify_all();
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::get_dropped_records(std::size_t* dropped) {
  const std::scoped_lock lock(mutex_);
  *dropped = std::exchange(dropped_, 0);
  return CUPTI_SUCCESS;
}

CUptiResult FakeCupti::get_next_record(std::uint8_t* buffer, std::size_t valid_bytes,
                                       CUpti_Activity** record) {
  auto* next = reinterpret_cast<std::uint8_t*>(*record);
  std::uint32_t kind = 0;
  if (next == nullptr) {
    next = buffer;
  } else {
    std::memcpy(&kind, next, sizeof(kind));
    next += step_of(kind);
  }
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  std::memcpy(&kind, next, sizeof(kind));
  if (step_of(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

void FakeCupti::release(void* /*memory*/) {
  ++released;
}

}  // namespace autotuned::profiler
