// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/cupti_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "base/function_lookup.hpp"
#include "base/text.hpp"
#include "profiler/recorder/cupti_api.hpp"

namespace autotuned::profiler {
namespace {

constexpr std::uint32_t kMajorVersion = 13;
constexpr const char* kRemedy = "scripts/setup installs CUPTI 13 beside LibTorch";

class CuptiLibrary final : public CuptiApi {
 public:
  // Returns the name of the first function that is missing; empty if there is none.
  std::string load(void* library) {
    FunctionLookup functions(library);
    functions.find(get_version_, "cuptiGetVersion");
    functions.find(get_timestamp_, "cuptiGetTimestamp");
    functions.find(get_callback_name_, "cuptiGetCallbackName");
    functions.find(get_result_string_, "cuptiGetResultString");
    functions.find(subscribe_, "cuptiSubscribe_v2");
    functions.find(unsubscribe_, "cuptiUnsubscribe");
    functions.find(enable_callback_, "cuptiEnableCallback");
    functions.find(register_callbacks_, "cuptiActivityRegisterCallbacks");
    functions.find(set_attribute_, "cuptiActivitySetAttribute");
    functions.find(set_thread_id_type_, "cuptiSetThreadIdType");
    functions.find(enable_, "cuptiActivityEnable");
    functions.find(disable_, "cuptiActivityDisable");
    functions.find(enable_runtime_call_, "cuptiActivityEnableRuntimeApi");
    functions.find(enable_driver_call_, "cuptiActivityEnableDriverApi");
    functions.find(enable_all_sync_records_, "cuptiActivityEnableAllSyncRecords");
    functions.find(push_external_, "cuptiActivityPushExternalCorrelationId");
    functions.find(pop_external_, "cuptiActivityPopExternalCorrelationId");
    functions.find(flush_all_, "cuptiActivityFlushAll");
    functions.find(get_dropped_records_, "cuptiActivityGetNumDroppedRecords");
    functions.find(get_next_record_, "cuptiActivityGetNextRecord");
    return functions.first_missing();
  }

  CUptiResult get_version(std::uint32_t* version) override { return get_version_(version); }
  CUptiResult get_timestamp(std::uint64_t* time) override { return get_timestamp_(time); }
  CUptiResult get_callback_name(CUpti_CallbackDomain domain, std::uint32_t id,
                                const char** name) override {
    return get_callback_name_(domain, id, name);
  }
  const char* result_text(CUptiResult result) override {
    const char* text = nullptr;
    return get_result_string_(result, &text) == CUPTI_SUCCESS && text != nullptr ? text
                                                                                 : "no such error";
  }
  bool has_driver() override {
    // The library stays open, because the caller will use it.
    return ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr;
  }

  CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user,
                        CUpti_SubscriberParams* parameters) override {
    return subscribe_(subscriber, callback, user, parameters);
  }
  CUptiResult unsubscribe(CUpti_SubscriberHandle subscriber) override {
    return unsubscribe_(subscriber);
  }
  CUptiResult enable_callback(std::uint32_t enable, CUpti_SubscriberHandle subscriber,
                              CUpti_CallbackDomain domain, CUpti_CallbackId id) override {
    return enable_callback_(enable, subscriber, domain, id);
  }

  CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc requested,
                                 CUpti_BuffersCallbackCompleteFunc completed) override {
    return register_callbacks_(requested, completed);
  }
  CUptiResult set_attribute(CUpti_ActivityAttribute attribute, std::size_t* bytes,
                            void* value) override {
    return set_attribute_(attribute, bytes, value);
  }
  CUptiResult set_thread_id_type(CUpti_ActivityThreadIdType type) override {
    return set_thread_id_type_(type);
  }
  CUptiResult enable(CUpti_ActivityKind kind) override { return enable_(kind); }
  CUptiResult disable(CUpti_ActivityKind kind) override { return disable_(kind); }
  CUptiResult enable_runtime_call(CUpti_CallbackId id, std::uint8_t enable) override {
    return enable_runtime_call_(id, enable);
  }
  CUptiResult enable_driver_call(CUpti_CallbackId id, std::uint8_t enable) override {
    return enable_driver_call_(id, enable);
  }
  CUptiResult enable_all_sync_records(std::uint8_t enable) override {
    return enable_all_sync_records_(enable);
  }

  CUptiResult push_external(CUpti_ExternalCorrelationKind kind, std::uint64_t id) override {
    return push_external_(kind, id);
  }
  CUptiResult pop_external(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) override {
    return pop_external_(kind, last);
  }

  CUptiResult flush_all(std::uint32_t flag) override { return flush_all_(flag); }
  CUptiResult get_dropped_records(std::size_t* dropped) override {
    return get_dropped_records_(nullptr, 0, dropped);
  }
  CUptiResult get_next_record(std::uint8_t* buffer, std::size_t valid_bytes,
                              CUpti_Activity** record) override {
    return get_next_record_(buffer, valid_bytes, record);
  }
  void release(void* memory) override { std::free(memory); }

 private:
  decltype(&cuptiGetVersion) get_version_ = nullptr;
  decltype(&cuptiGetTimestamp) get_timestamp_ = nullptr;
  decltype(&cuptiGetCallbackName) get_callback_name_ = nullptr;
  decltype(&cuptiGetResultString) get_result_string_ = nullptr;
  decltype(&cuptiSubscribe_v2) subscribe_ = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe_ = nullptr;
  decltype(&cuptiEnableCallback) enable_callback_ = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks_ = nullptr;
  decltype(&cuptiActivitySetAttribute) set_attribute_ = nullptr;
  decltype(&cuptiSetThreadIdType) set_thread_id_type_ = nullptr;
  decltype(&cuptiActivityEnable) enable_ = nullptr;
  decltype(&cuptiActivityDisable) disable_ = nullptr;
  decltype(&cuptiActivityEnableRuntimeApi) enable_runtime_call_ = nullptr;
  decltype(&cuptiActivityEnableDriverApi) enable_driver_call_ = nullptr;
  decltype(&cuptiActivityEnableAllSyncRecords) enable_all_sync_records_ = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external_ = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external_ = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all_ = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_dropped_records_ = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record_ = nullptr;
};

}  // namespace

Result<CuptiApi*> open_cupti(const char* library) {
  // Never destroyed: CUPTI's threads may call into this process until it ends.
  static std::mutex mutex;
  static auto& opened = *new std::map<std::string, CuptiLibrary>();
  const std::scoped_lock lock(mutex);
  if (const auto found = opened.find(library); found != opened.end()) return &found->second;

  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return fail(ErrorKind::unsupported, "CUPTI is not installed (" + first_line(::dlerror()) + ")",
                {}, kRemedy);
  }
  CuptiLibrary api;
  if (const std::string missing = api.load(handle); !missing.empty()) {
    return fail(ErrorKind::unsupported, "it is not CUPTI 13: it lacks " + missing, library,
                kRemedy);
  }
  std::uint32_t version = 0;
  const CUptiResult result = api.get_version(&version);
  if (result != CUPTI_SUCCESS || version / 10'000 != kMajorVersion) {
    // Before 13.0 the version was a counter: 28 means CUDA 12.9.
    return fail(ErrorKind::unsupported,
                "it is CUPTI of the version " + std::to_string(version) + ", 13 is needed", library,
                kRemedy);
  }
  return &opened.emplace(library, api).first->second;
}

}  // namespace autotuned::profiler
