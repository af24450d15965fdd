// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/torch_timeline.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "profiler/recorder/thread_log.hpp"
#include "profiler/recorder/torch_script.hpp"
#include "profiler/spans.hpp"

namespace autotuned::profiler {
namespace {

constexpr std::string_view kAccumulateGrad = "torch::autograd::AccumulateGrad";

// All logs of one recording.
class RecordedLogs {
 public:
  explicit RecordedLogs(const TimelineOptions& options)
      : options_(options), quota_(options.most_events) {}

  // `place`: index into Timeline::threads.
  std::shared_ptr<ThreadLog> make_log(std::size_t& place) {
    auto log =
        std::make_shared<ThreadLog>(quota_, ::gettid(), at::RecordFunction::currentThreadId());
    const std::scoped_lock lock(mutex_);
    place = logs_.size();
    logs_.push_back(log);
    return log;
  }

  [[nodiscard]] const TimelineOptions& options() const { return options_; }
  void add(ExchangeEvent exchange);
  [[nodiscard]] Timeline take(const ModulePaths& paths);

 private:
  TimelineOptions options_;
  EventQuota quota_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<ThreadLog>> logs_;
  std::vector<ExchangeEvent> exchanges_;
};

// A log lives as long as its recording and the thread's pointer to it.
std::mutex recording_mutex;
std::shared_ptr<RecordedLogs> current_recording;  // guarded by it
std::atomic<std::uint64_t> recording_number{0};   // number of the current one; 0: none

struct ThreadState {
  std::uint64_t number = 0;
  std::shared_ptr<RecordedLogs> recording;  // the log refers to it
  std::shared_ptr<ThreadLog> log;
  std::size_t place = 0;    // place of the log
  std::string script_path;  // kept for its memory
};
thread_local ThreadState thread_state;

// Null without a recording.
ThreadLog* log_of_this_thread() {
  const std::uint64_t number = recording_number.load(std::memory_order_acquire);
  ThreadState& state = thread_state;
  if (state.number == number) [[likely]]
    return state.log.get();
  state.log.reset();
  state.recording.reset();
  state.number = number;
  if (number == 0) return nullptr;
  {
    const std::scoped_lock lock(recording_mutex);
    state.recording = current_recording;
  }
  if (state.recording != nullptr) state.log = state.recording->make_log(state.place);
  return state.log.get();
}

void append_sizes(std::string& text, at::IntArrayRef sizes) {
  text += '[';
  for (std::size_t i = 0; i < sizes.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  text += ']';
}

// Returns the form that torch.profiler writes; empty for values that it leaves out.
std::string value_text(const c10::IValue& value) {
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isDouble()) return std::to_string(value.toDouble());
  if (value.isBool()) return value.toBool() ? "True" : "False";
  std::string text;
  if (value.isIntList()) {
    append_sizes(text, value.toIntVector());
  } else if (value.isBoolList()) {
    text = "[";
    for (const bool one : value.toBoolList())
      text += std::string(text.size() == 1 ? "" : ", ") + (one ? "True" : "False");
    text += ']';
  }
  return text;
}

OperatorInputs inputs_of(c10::ArrayRef<const c10::IValue> values) {
  OperatorInputs inputs{"[", "[", "["};
  const auto add_tensor = [&inputs](const at::Tensor& tensor) {
    append_sizes(inputs.sizes,
                 tensor.defined() && !tensor.is_nested() ? tensor.sizes() : at::IntArrayRef());
  };
  for (const c10::IValue& value : values) {
    if (inputs.sizes.size() > 1) {
      inputs.sizes += ", ";
      inputs.types += ", ";
      inputs.values += ", ";
    }
    inputs.values += '"' + value_text(value) + '"';
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      add_tensor(tensor);
      inputs.types += '"' + (tensor.defined() ? std::string(tensor.dtype().name()) : "") + '"';
    } else if (value.isTensorList()) {
      inputs.sizes += '[';
      bool is_first = true;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        if (!std::exchange(is_first, false)) inputs.sizes += ", ";
        add_tensor(tensor);
      }
      inputs.sizes += ']';
      inputs.types += "\"TensorList\"";
    } else {
      inputs.sizes += "[]";
      const bool is_list = value.isIntList() || value.isDoubleList() || value.isBoolList();
      inputs.types += value.isScalar() ? "\"Scalar\"" : is_list ? "\"ScalarList\"" : "\"\"";
    }
  }
  inputs.sizes += ']';
  inputs.types += ']';
  inputs.values += ']';
  return inputs;
}

// Returns the parameter whose gradient the running node accumulates; null for another node.
const void* accumulated_parameter() {
  const auto node = torch::autograd::get_current_node();
  const auto* const accumulate = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get());
  return accumulate != nullptr ? accumulate->variable.unsafeGetTensorImpl() : nullptr;
}

std::unique_ptr<at::ObserverContext> on_enter(const at::RecordFunction& function) {
  ThreadLog* const log = log_of_this_thread();
  if (log == nullptr) return nullptr;
  const bool is_backward = function.scope() == at::RecordScope::BACKWARD_FUNCTION;
  const bool is_outermost = log->is_outermost();
  const std::string_view name = function.name();
  TimelineEvent* const event =
      log->begin(is_backward ? TimelineKind::backward : TimelineKind::operation, name);
  if (event == nullptr) return nullptr;
  event->sequence = function.seqNr();
  if (is_backward) {
    event->forward_thread = function.forwardThreadId();
    if (name == kAccumulateGrad) {
      event->sequence = -1;
      if (const void* parameter = accumulated_parameter())
        event->module = log->module_at(parameter);
    }
  } else if (is_outermost && running_script_module(thread_state.script_path)) {
    event->module = log->module_named(thread_state.script_path);
  }
  if (thread_state.recording->options().records_shapes && function.needsInputs()) {
    event->inputs = log->inputs_id(inputs_of(function.inputs()));
  }
  if (ScopeListener* const listener = thread_state.recording->options().listener) {
    listener->enter_operator(scope_of_operator(thread_state.place, log->last_event()));
  }
  log->start_clock();
  return nullptr;
}

void on_exit(const at::RecordFunction& /*function*/, at::ObserverContext* /*context*/) {
  const std::int64_t time = now_ns();
  ThreadLog* const log = log_of_this_thread();
  if (log == nullptr || !log->end(time)) return;
  if (ScopeListener* const listener = thread_state.recording->options().listener) {
    listener->leave_operator();
  }
}

void RecordedLogs::add(ExchangeEvent exchange) {
  if (quota_.take(1) == 0) return quota_.lose();
  const std::scoped_lock lock(mutex_);
  exchanges_.push_back(std::move(exchange));
}

// An exchange between ranks that has begun. A thread of the process group ends it, perhaps after the recording. So it is not in the logs of
// threads, which have no lock.
struct BegunExchange : public at::ObserverContext {
  std::shared_ptr<RecordedLogs> recording;
  ExchangeEvent event;
};

std::unique_ptr<at::ObserverContext> on_exchange_begin(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  if (!name.starts_with("gloo:") && !name.starts_with("nccl:")) return nullptr;
  auto begun = std::make_unique<BegunExchange>();
  {
    const std::scoped_lock lock(recording_mutex);
    begun->recording = current_recording;
  }
  if (begun->recording == nullptr) return nullptr;
  begun->event.thread = ::gettid();
  begun->event.name = name;
  if (begun->recording->options().records_shapes && function.needsInputs()) {
    begun->event.inputs = inputs_of(function.inputs());
  }
  begun->event.start_ns = now_ns();
  return begun;
}

void on_exchange_end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context == nullptr) return;
  auto* const begun = static_cast<BegunExchange*>(context);
  begun->event.end_ns = now_ns();
  begun->recording->add(std::move(begun->event));
}

// Receives memory events on the thread that has this object in its slot, and on the engine's threads, which inherit the slot.
class MemoryListener final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* pointer, std::int64_t bytes, std::size_t allocated,
                         std::size_t reserved, c10::Device device) override {
    ThreadLog* const log = log_of_this_thread();
    if (log == nullptr) return;
    log->add_memory({.time_ns = now_ns(),
                     .address = reinterpret_cast<std::uintptr_t>(pointer),
                     .bytes = bytes,
                     .allocated_bytes = static_cast<std::int64_t>(allocated),
                     .reserved_bytes = static_cast<std::int64_t>(reserved),
                     .device_type = static_cast<int>(device.type()),
                     .device = device.index()});
  }
  bool memoryProfilingEnabled() const override { return true; }
};

// Empty for an unknown module.
std::string path_of(const ThreadLog::ModuleKey& key, const std::vector<ThreadLog::ModuleKey>& keys,
                    const ModulePaths& paths) {
  if (key.address != nullptr) {
    const auto found = paths.find(key.address);
    return found == paths.end() ? std::string() : found->second;
  }
  const std::string script = key.holder == kNone ? "" : path_of(keys[key.holder], keys, paths);
  if (script.empty() || key.path.empty()) return script + key.path;
  return script + "." + key.path;
}

Timeline RecordedLogs::take(const ModulePaths& paths) {
  Timeline timeline;
  timeline.lost_events = quota_.lost();
  std::map<std::string, std::uint32_t> ids;
  const std::scoped_lock lock(mutex_);
  for (const auto& log : logs_) {
    ThreadTimeline thread = log->take();
    std::vector<std::uint32_t> id_of_key;
    for (const ThreadLog::ModuleKey& key : log->module_keys()) {
      const std::string path = path_of(key, log->module_keys(), paths);
      if (path.empty()) {
        id_of_key.push_back(kNone);
        continue;
      }
      const auto [id, is_new] =
          ids.try_emplace(path, static_cast<std::uint32_t>(timeline.modules.size()));
      if (is_new) timeline.modules.push_back(path);
      id_of_key.push_back(id->second);
    }
    for (TimelineEvent& event : thread.events) {
      if (event.module != kNone) event.module = id_of_key[event.module];
    }
    timeline.threads.push_back(std::move(thread));
  }
  timeline.exchanges = std::move(exchanges_);
  return timeline;
}

}  // namespace

struct TimelineRecorder::State {
  std::shared_ptr<RecordedLogs> recording;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  at::CallbackHandle exchange_handle = at::INVALID_CALLBACK_HANDLE;
  bool listens_to_memory = false;

  void end() {
    if (handle == at::INVALID_CALLBACK_HANDLE) return;
    at::removeCallback(std::exchange(handle, at::INVALID_CALLBACK_HANDLE));
    at::removeCallback(exchange_handle);
    if (listens_to_memory) c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
    ThreadLog::set_current(nullptr);
    recording_number = 0;
    const std::scoped_lock lock(recording_mutex);
    current_recording.reset();
  }
};

TimelineRecorder::TimelineRecorder(const TimelineOptions& options)
    : state_(std::make_unique<State>()) {
  static std::uint64_t last_number = 0;
  state_->recording = std::make_shared<RecordedLogs>(options);
  {
    const std::scoped_lock lock(recording_mutex);
    current_recording = state_->recording;
    recording_number = ++last_number;
  }
  ThreadLog::set_current(log_of_this_thread());
  if (options.records_memory) {
    c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE,
                                     std::make_shared<MemoryListener>());
    state_->listens_to_memory = true;
  }
  state_->handle = at::addGlobalCallback(
      at::RecordFunctionCallback(on_enter, on_exit)
          .needsInputs(options.records_shapes)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  state_->exchange_handle =
      at::addGlobalCallback(at::RecordFunctionCallback(on_exchange_begin, on_exchange_end)
                                .needsInputs(options.records_shapes)
                                .scopes({at::RecordScope::USER_SCOPE}));
}

TimelineRecorder::~TimelineRecorder() {
  state_->end();
}

Timeline TimelineRecorder::stop(const ModulePaths& paths) {
  state_->end();
  return state_->recording->take(paths);
}

}  // namespace autotuned::profiler
