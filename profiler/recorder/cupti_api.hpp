// SPDX-License-Identifier: Apache-2.0
// The functions of CUPTI that are used, as an interface, so that tests can simulate a GPU. cupti_library.cpp
// implements it with the library. Only files named cupti_* may include this.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace autotuned::profiler {

// Each function is that of the same name in cupti_activity.h and cupti_callbacks.h, which document the
// results. Any thread.
class CuptiApi {
 public:
  virtual ~CuptiApi() = default;

  virtual CUptiResult get_version(std::uint32_t* version) = 0;  // 130001: CUDA 13.0, update 1
  virtual CUptiResult get_timestamp(std::uint64_t* time) = 0;
  virtual CUptiResult get_callback_name(CUpti_CallbackDomain domain, std::uint32_t id,
                                        const char** name) = 0;
  // Never null.
  virtual const char* result_text(CUptiResult result) = 0;
  // Whether there is a driver at all. Without one, CUPTI itself only answers "unknown error".
  virtual bool has_driver() = 0;

  virtual CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                void* user, CUpti_SubscriberParams* parameters) = 0;
  virtual CUptiResult unsubscribe(CUpti_SubscriberHandle subscriber) = 0;
  virtual CUptiResult enable_callback(std::uint32_t enable, CUpti_SubscriberHandle subscriber,
                                      CUpti_CallbackDomain domain, CUpti_CallbackId id) = 0;

  virtual CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc requested,
                                         CUpti_BuffersCallbackCompleteFunc completed) = 0;
  virtual CUptiResult set_attribute(CUpti_ActivityAttribute attribute, std::size_t* bytes,
                                    void* value) = 0;
  virtual CUptiResult set_thread_id_type(CUpti_ActivityThreadIdType type) = 0;
  virtual CUptiResult enable(CUpti_ActivityKind kind) = 0;
  virtual CUptiResult disable(CUpti_ActivityKind kind) = 0;
  virtual CUptiResult enable_runtime_call(CUpti_CallbackId id, std::uint8_t enable) = 0;
  virtual CUptiResult enable_driver_call(CUpti_CallbackId id, std::uint8_t enable) = 0;
  virtual CUptiResult enable_all_sync_records(std::uint8_t enable) = 0;

  virtual CUptiResult push_external(CUpti_ExternalCorrelationKind kind, std::uint64_t id) = 0;
  virtual CUptiResult pop_external(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) = 0;

  virtual CUptiResult flush_all(std::uint32_t flag) = 0;
  virtual CUptiResult get_dropped_records(std::size_t* dropped) = 0;
  virtual CUptiResult get_next_record(std::uint8_t* buffer, std::size_t valid_bytes,
                                      CUpti_Activity** record) = 0;
  // Frees memory that CUPTI handed over with a record (CUpti_ActivityOverhead3::overheadData).
  virtual void release(void* memory) = 0;
};

}  // namespace autotuned::profiler
