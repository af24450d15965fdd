// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/cupti_collector.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <exception>
#include <future>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "profiler/recorder/cupti_api.hpp"
#include "profiler/recorder/cupti_buffers.hpp"
#include "profiler/recorder/cupti_records.hpp"
#include "profiler/spans.hpp"

namespace autotuned::profiler {
namespace {

constexpr std::int64_t kClockStepNs = 1'000'000;
constexpr int kClockReadings = 8;
constexpr int kDecoderNiceness = 10;

struct Kind {
  CUpti_ActivityKind kind;
  const char* name;  // null: the profile needs this kind
};
constexpr std::array kKinds = {
    // Not KIND_KERNEL, because it makes kernels wait for each other.
    Kind{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, nullptr},
    Kind{CUPTI_ACTIVITY_KIND_RUNTIME, nullptr},
    // The whole kind is enabled: without it CUPTI 13.0 accepts cuptiActivityEnableDriverApi() for single launches, but records none.
    Kind{CUPTI_ACTIVITY_KIND_DRIVER, "launches of the driver"},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY, "copies"},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between GPUs"},
    Kind{CUPTI_ACTIVITY_KIND_MEMSET, "fills"},
    Kind{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "the operators of launches"},
    Kind{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronisations"},
    Kind{CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead"},
};

// LibTorch calls these all the time, although they do no work.
constexpr std::array<CUpti_CallbackId, 13> kQuietCalls = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDeviceCount_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventCreate_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventCreateWithFlags_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventDestroy_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetErrorString_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetAttribute_v5000,
    CUPTI_RUNTIME_TRACE_CBID_cudaFuncGetAttributes_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaFuncSetAttribute_v9000,
};
// The same for functions of the driver that its own libraries call: a step of ResNet-18 has 1,200 of these calls, and one launch.
constexpr std::array<CUpti_CallbackId, 6> kQuietDriverCalls = {
    CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent,
    CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxGetState,
    CUPTI_DRIVER_TRACE_CBID_cuFuncGetAttribute,
    CUPTI_DRIVER_TRACE_CBID_cuKernelGetFunction,
    CUPTI_DRIVER_TRACE_CBID_cuKernelGetName,
    CUPTI_DRIVER_TRACE_CBID_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
};

std::int64_t realtime_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

struct ClockReading {
  std::int64_t offset_ns = 0;  // CUPTI's clock minus CLOCK_MONOTONIC
  std::int64_t time_ns = 0;    // CUPTI's
  bool is_realtime = true;
};

// Reads CUPTI's clock between two readings of our own, the closest of several. Returns nothing if CUPTI reports no time.
std::optional<ClockReading> read_clock(CuptiApi& api) {
  std::optional<ClockReading> best;
  std::int64_t best_gap_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kClockReadings; ++i) {
    std::uint64_t time = 0;
    const std::int64_t before_ns = now_ns();
    const std::int64_t earliest_ns = realtime_ns();
    if (api.get_timestamp(&time) != CUPTI_SUCCESS || time == 0) return std::nullopt;
    const std::int64_t latest_ns = realtime_ns();
    const std::int64_t after_ns = now_ns();
    if (after_ns - before_ns >= best_gap_ns) continue;
    best_gap_ns = after_ns - before_ns;
    const auto time_ns = static_cast<std::int64_t>(time);
    best = {.offset_ns = time_ns - (before_ns + best_gap_ns / 2),
            .time_ns = time_ns,
            .is_realtime =
                earliest_ns - kClockStepNs <= time_ns && time_ns <= latest_ns + kClockStepNs};
  }
  return best;
}

}  // namespace

struct CuptiCollector::State {
  State(CuptiApi& cupti, const CuptiOptions& wanted)
      : api(cupti),
        options(wanted),
        buffers(wanted.buffers, wanted.buffer_bytes),
        records(cupti, wanted.most_records) {}

  Result<void> start();
  Result<void> subscribe();
  void stop();
  void decode();
  void decode_until(const std::stop_token& stop);
  void flush(std::uint32_t flag);
  std::int64_t dropped();
  void note(std::string text) {
    if (std::ranges::find(notes, text) == notes.end()) notes.push_back(std::move(text));
  }
  // Notes the failure of a call that the profile can do without.
  void try_to(CUptiResult result, const std::string& what) {
    if (result != CUPTI_SUCCESS) note("CUPTI does not " + what + ": " + api.result_text(result));
  }
  static void on_callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                          const void* /*data*/) {
    if (domain == CUPTI_CB_DOMAIN_STATE && id == CUPTI_CBID_STATE_FATAL_ERROR) {
      static_cast<State*>(user)->has_failed = true;
    }
  }

  CuptiApi& api;
  CuptiOptions options;
  CuptiBuffers buffers;
  CUpti_SubscriberHandle subscriber = nullptr;
  bool is_enabled = false;
  bool is_stuck = false;  // CUPTI did not return from a call, so it is not called again
  std::atomic<bool> has_failed{false};
  std::atomic<bool> is_out_of_memory{false};
  ClockReading clock;
  std::vector<std::string> notes;
  // Guards `records`. Never held during a call that CUPTI may answer with a callback.
  std::mutex mutex;
  CuptiRecords records;
  std::jthread decoder;
};

Result<void> CuptiCollector::State::subscribe() {
  std::array<char, 2 * CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN> holder{};
  CUpti_SubscriberParams parameters{};
  parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  parameters.subscriberName = "autotuned";
  parameters.oldSubscriberName = holder.data();
  parameters.oldSubscriberSize = holder.size() - 1;
  const CUptiResult result = api.subscribe(&subscriber, on_callback, this, &parameters);
  if (result == CUPTI_SUCCESS) return {};
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    const std::string name = holder.data();
    return fail(ErrorKind::busy,
                "another subscriber" + (name.empty() ? name : ", " + name + ",") + " holds CUPTI",
                {}, "profile without other tools of NVIDIA");
  }
  if (!api.has_driver()) return fail(ErrorKind::unsupported, "no NVIDIA driver");
  return fail(ErrorKind::unsupported, std::string("CUPTI refuses: ") + api.result_text(result));
}

Result<void> CuptiCollector::State::start() {
  // This comes first, because the subscriber owns everything else.
  if (auto subscribed = subscribe(); !subscribed) return subscribed;
  const auto read = read_clock(api);
  if (!read) {
    static_cast<void>(api.unsubscribe(subscriber));
    return fail(ErrorKind::unsupported, "CUPTI reports no time");
  }
  clock = *read;
  if (!clock.is_realtime) {
    note("CUPTI's clock is not the system's: times of the GPU were shifted to fit");
  }
  try_to(api.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), "tell threads by number");
  // Otherwise CUPTI zeroes the buffers itself, on the launching thread.
  std::uint8_t is_zeroed = 1;
  std::size_t bytes = sizeof(is_zeroed);
  try_to(api.set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &is_zeroed),
         "take buffers as zeroed");
  buffers.install();
  const CUptiResult result =
      api.register_callbacks(CuptiBuffers::on_requested, CuptiBuffers::on_completed);
  if (result != CUPTI_SUCCESS) {
    buffers.uninstall();
    static_cast<void>(api.unsubscribe(subscriber));
    return fail(ErrorKind::unsupported,
                std::string("CUPTI takes no buffers: ") + api.result_text(result));
  }
  try_to(api.enable_callback(1, subscriber, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR),
         "tell of its own failures");
  decoder = std::jthread([this](const std::stop_token& stop) { decode_until(stop); });
  return {};
}

// REQUIRES: CUPTI is not stuck.
void CuptiCollector::State::stop() {
  static_cast<void>(api.unsubscribe(subscriber));
  buffers.uninstall();
  decoder.request_stop();
  buffers.wake();
  decoder.join();
}

void CuptiCollector::State::decode() {
  const std::scoped_lock lock(mutex);
  while (const auto full = buffers.next()) {
    try {
      records.add(full->data, full->bytes);
    } catch (const std::exception&) {
      is_out_of_memory = true;  // nothing else throws there
    }
    buffers.give_back(*full);
  }
}

void CuptiCollector::State::decode_until(const std::stop_token& stop) {
  // Gives the reader a lower priority than the training threads. If that is not permitted, it works without.
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kDecoderNiceness));
  while (!stop.stop_requested()) {
    const std::uint64_t seen = buffers.change();
    decode();
    if (!stop.stop_requested()) buffers.wait(seen);
  }
}

// On a thread of its own, so that this process does not hang if CUPTI does.
void CuptiCollector::State::flush(std::uint32_t flag) {
  if (is_stuck) return;
  auto promise = std::make_shared<std::promise<CUptiResult>>();
  std::future<CUptiResult> result = promise->get_future();
  std::thread([cupti = &api, flag, promise] {
    promise->set_value(cupti->flush_all(flag));
  }).detach();
  if (result.wait_for(options.flush_limit) != std::future_status::ready) {
    is_stuck = true;
    note("CUPTI did not hand over its buffers within " +
         std::to_string(options.flush_limit.count()) + " ms: records of the GPU are missing");
    return;
  }
  try_to(result.get(), "hand over its buffers");
  decode();
}

// Returns the number since the last call.
std::int64_t CuptiCollector::State::dropped() {
  std::size_t count = 0;
  if (is_stuck || api.get_dropped_records(&count) != CUPTI_SUCCESS) return 0;
  constexpr std::size_t kMax = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(count, kMax));
}

Result<std::unique_ptr<CuptiCollector>> CuptiCollector::open(CuptiApi& api,
                                                             const CuptiOptions& options) {
  std::unique_ptr<State> state;
  try {
    state = std::make_unique<State>(api, options);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory for CUPTI's buffers");
  }
  if (auto started = state->start(); !started) return tl::unexpected(started.error());
  return std::unique_ptr<CuptiCollector>(new CuptiCollector(std::move(state)));
}

CuptiCollector::CuptiCollector(std::unique_ptr<State> state) : state_(std::move(state)) {}

CuptiCollector::~CuptiCollector() {
  disable();
  // Also if it was disabled before: records after the last take() are in a buffer that CUPTI would otherwise continue, and hand to the next
  // user.
  state_->flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (!state_->is_stuck) {
    state_->stop();
    return;
  }
  // A thread of CUPTI may still use the object.
  state_->buffers.uninstall();
  static std::mutex mutex;
  static auto& abandoned = *new std::vector<std::unique_ptr<State>>();
  const std::scoped_lock lock(mutex);
  abandoned.push_back(std::move(state_));
}

Result<void> CuptiCollector::enable() {
  State& state = *state_;
  if (state.is_enabled || state.is_stuck) return {};
  for (const Kind& kind : kKinds) {
    const CUptiResult result = state.api.enable(kind.kind);
    if (result == CUPTI_SUCCESS) continue;
    if (kind.name == nullptr) {
      state.is_enabled = true;
      disable();
      return fail(ErrorKind::unsupported,
                  std::string("CUPTI refuses to record kernels: ") + state.api.result_text(result));
    }
    state.note(std::string("CUPTI does not record ") + kind.name + ": " +
               state.api.result_text(result));
  }
  // After the kinds, which would override it. The event queries of LibTorch's allocator would flood the recording.
  state.try_to(state.api.enable_all_sync_records(0), "leave out queries");
  for (const CUpti_CallbackId id : kQuietCalls)
    state.try_to(state.api.enable_runtime_call(id, 0), "leave out calls that do nothing");
  for (const CUpti_CallbackId id : kQuietDriverCalls)
    state.try_to(state.api.enable_driver_call(id, 0), "leave out calls that do nothing");
  state.is_enabled = true;
  return {};
}

void CuptiCollector::disable() {
  State& state = *state_;
  if (!std::exchange(state.is_enabled, false) || state.is_stuck) return;
  for (const Kind& kind : kKinds)
    static_cast<void>(state.api.disable(kind.kind));
}

void CuptiCollector::restart() {
  State& state = *state_;
  state.flush(0);
  static_cast<void>(state.dropped());
  if (const auto read = state.is_stuck ? std::nullopt : read_clock(state.api)) state.clock = *read;
  const std::scoped_lock lock(state.mutex);
  static_cast<void>(state.records.take({}));
}

DeviceTimeline CuptiCollector::take() {
  State& state = *state_;
  state.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::int64_t dropped = state.dropped();
  if (const auto read = state.is_stuck ? std::nullopt : read_clock(state.api)) {
    const std::int64_t step_ns = read->offset_ns - state.clock.offset_ns;
    if (step_ns > kClockStepNs || step_ns < -kClockStepNs) {
      state.note("the system's clock was set while the GPU was recorded, by " +
                 std::to_string(step_ns / 1'000'000) + " ms: times of the GPU may be off");
    }
  }
  const std::scoped_lock lock(state.mutex);
  DeviceTimeline timeline =
      state.records.take({.from_ns = state.clock.time_ns, .offset_ns = state.clock.offset_ns});
  timeline.losses.dropped += dropped;
  return timeline;
}

std::vector<std::string> CuptiCollector::notes() const {
  std::vector<std::string> notes = state_->notes;
  if (state_->has_failed)
    notes.emplace_back("CUPTI failed and stopped: records of the GPU are missing");
  if (state_->is_out_of_memory) notes.emplace_back("no memory was left for records of the GPU");
  if (const std::int64_t foreign = state_->buffers.foreign(); foreign > 0) {
    notes.push_back("another profiler in this process mixes with CUPTI's buffers (" +
                    format_count(foreign) + " of them are not ours)");
  }
  return notes;
}

void CuptiCollector::enter_operator(ScopeId operation) noexcept {
  static_cast<void>(state_->api.push_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, operation));
}
void CuptiCollector::leave_operator() noexcept {
  static_cast<void>(state_->api.pop_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, nullptr));
}
void CuptiCollector::enter_span(ScopeId span) noexcept {
  static_cast<void>(state_->api.push_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, span));
}
void CuptiCollector::leave_span() noexcept {
  static_cast<void>(state_->api.pop_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, nullptr));
}

}  // namespace autotuned::profiler
