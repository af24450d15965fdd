// SPDX-License-Identifier: Apache-2.0
// Stands in for CUPTI and a GPU: a launch here gives the records that CUPTI would write, through the
// same callbacks. Times are what the test says.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "profiler/recorder/cupti_api.hpp"
#include "tests/profiler/recorder/cupti_samples.hpp"

namespace autotuned::profiler {

// What the GPU is asked for: the call of the host, and the work.
struct FakeWork {
  SampleTimes call;
  SampleTimes work;
};

class FakeCupti final : public CuptiApi {
 public:
  // How it behaves; to be set before it is used.
  std::uint32_t version = 130'001;
  bool with_driver = true;
  std::string holder;               // another subscriber
  std::set<int> refused_kinds;      // of CUpti_ActivityKind
  std::int64_t clock_shift_ns = 0;  // off the system's clock
  bool tells_time = true;
  bool works_before_calls = false;  // the order of records

  // --- the fake GPU: each returns the correlation of the call ---
  std::uint32_t launch(const char* name, const FakeWork& work, std::uint32_t grid = 4,
                       std::uint32_t block = 128);
  std::uint32_t copy(CUpti_ActivityMemoryKind host, std::uint64_t bytes, const FakeWork& work);
  std::uint32_t fill(std::uint64_t bytes, const FakeWork& work);
  // The host waits for a stream.
  std::uint32_t synchronize(SampleTimes times);
  void overhead(CUpti_ActivityOverheadKind kind, SampleTimes times);
  // Any record, as if CUPTI had made it.
  template <class Record>
  void write(const Record& record) {
    const std::scoped_lock lock(mutex_);
    if (kinds_.contains(record.kind)) write_locked(&record, sizeof(record));
  }
  void fail_fatally();
  // flush_all() does not return until release_flush().
  void hold_flush();
  void release_flush();
  void wait_until_flushing();  // that somebody is in flush_all()
  void wait_until_flushed();   // that nobody is

  [[nodiscard]] std::set<int> kinds() const;
  [[nodiscard]] bool has_subscriber() const { return is_subscribed_; }
  [[nodiscard]] int open_scopes() const;  // of all threads
  [[nodiscard]] CUpti_ActivityThreadIdType thread_id_type() const { return thread_id_type_; }
  [[nodiscard]] bool wants_zeroed_buffers() const { return wants_zeroed_; }
  // Whether calls of that function of the driver are recorded. As CUPTI 13.0 does, unlike its documentation: only where the
  // whole kind is enabled.
  [[nodiscard]] bool records(CUpti_driver_api_trace_cbid id) const {
    const std::scoped_lock lock(mutex_);
    return kinds_.contains(CUPTI_ACTIVITY_KIND_DRIVER) &&
           !quiet_driver_calls_.contains(static_cast<CUpti_CallbackId>(id));
  }
  [[nodiscard]] bool found_dirty_buffer() const { return found_dirty_; }
  [[nodiscard]] CUpti_BuffersCallbackCompleteFunc completed_callback() const { return completed_; }

  // --- CuptiApi ---
  CUptiResult get_version(std::uint32_t* result) override;
  CUptiResult get_timestamp(std::uint64_t* time) override;
  CUptiResult get_callback_name(CUpti_CallbackDomain domain, std::uint32_t id,
                                const char** name) override;
  const char* result_text(CUptiResult result) override;
  bool has_driver() override { return with_driver; }
  CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user,
                        CUpti_SubscriberParams* parameters) override;
  CUptiResult unsubscribe(CUpti_SubscriberHandle subscriber) override;
  CUptiResult enable_callback(std::uint32_t enable, CUpti_SubscriberHandle subscriber,
                              CUpti_CallbackDomain domain, CUpti_CallbackId id) override;
  CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc requested,
                                 CUpti_BuffersCallbackCompleteFunc completed) override;
  CUptiResult set_attribute(CUpti_ActivityAttribute attribute, std::size_t* bytes,
                            void* value) override;
  CUptiResult set_thread_id_type(CUpti_ActivityThreadIdType type) override;
  CUptiResult enable(CUpti_ActivityKind kind) override;
  CUptiResult disable(CUpti_ActivityKind kind) override;
  CUptiResult enable_runtime_call(CUpti_CallbackId id, std::uint8_t enable) override;
  CUptiResult enable_driver_call(CUpti_CallbackId id, std::uint8_t enable) override;
  CUptiResult enable_all_sync_records(std::uint8_t enable) override;
  CUptiResult push_external(CUpti_ExternalCorrelationKind kind, std::uint64_t id) override;
  CUptiResult pop_external(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) override;
  CUptiResult flush_all(std::uint32_t flag) override;
  CUptiResult get_dropped_records(std::size_t* dropped) override;
  CUptiResult get_next_record(std::uint8_t* buffer, std::size_t valid_bytes,
                              CUpti_Activity** record) override;
  void release(void* memory) override;
  int released = 0;  // pieces of memory

 private:
  void write_locked(const void* record, std::size_t bytes);
  void write_call(CUpti_CallbackId number, std::uint32_t correlation, SampleTimes times);
  void complete_locked();
  std::uint32_t next_correlation();
  template <class Record>
  void write_work(CUpti_CallbackId number, std::uint32_t correlation, const FakeWork& work,
                  const Record& record);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  CUpti_BuffersCallbackRequestFunc requested_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc completed_ = nullptr;
  CUpti_CallbackFunc callback_ = nullptr;
  void* user_ = nullptr;
  bool is_subscribed_ = false;
  bool tells_fatal_ = false;
  bool wants_zeroed_ = false;
  bool found_dirty_ = false;
  CUpti_ActivityThreadIdType thread_id_type_ = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
  std::set<int> kinds_;
  std::set<CUpti_CallbackId> quiet_driver_calls_;
  std::uint8_t* buffer_ = nullptr;
  std::size_t buffer_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t dropped_ = 0;
  std::uint32_t last_correlation_ = 0;
  bool is_flush_held_ = false;
  int flushing_ = 0;
  std::map<std::pair<std::thread::id, int>, std::vector<std::uint64_t>> scopes_;
};

}  // namespace autotuned::profiler
