// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/torch_operators.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "profiler/spans.hpp"

namespace autotuned::profiler {
namespace {

struct Sum {
  std::int64_t calls = 0;
  std::int64_t total_ns = 0;
  std::int64_t self_ns = 0;
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
using SumsByName = std::unordered_map<std::string, Sum, TextHash, std::equal_to<>>;

struct OpenOperator {
  std::int64_t start_ns = 0;
  std::int64_t inner_ns = 0;  // in operators that it called
  const char* span = "";
};

struct ThreadSums {
  // Sums by the name of the span. There are few names, and each is one pointer. Names of operators are copied, because those of autograd's
  // nodes do not outlive the call.
  std::vector<std::pair<const char*, SumsByName>> by_span;
  std::vector<OpenOperator> open;  // innermost last

  Sum& sum_of(const char* span, std::string_view name) {
    auto in_span = std::ranges::find(by_span, span, &std::pair<const char*, SumsByName>::first);
    if (in_span == by_span.end()) {
      by_span.emplace_back(span, SumsByName());
      in_span = std::prev(by_span.end());
    }
    SumsByName& sums = in_span->second;
    if (const auto found = sums.find(name); found != sums.end()) return found->second;
    return sums[std::string(name)];
  }
};

// The number of the current recording. Threads of a later one must not write to sums of an earlier one.
std::atomic<std::uint64_t> recording{0};
std::mutex threads_mutex;
std::vector<std::shared_ptr<ThreadSums>> threads;

ThreadSums& sums_of_this_thread() {
  thread_local std::uint64_t of_recording = 0;
  thread_local std::shared_ptr<ThreadSums> sums;
  if (of_recording != recording.load(std::memory_order_relaxed)) {
    of_recording = recording.load(std::memory_order_relaxed);
    sums = std::make_shared<ThreadSums>();
    const std::scoped_lock lock(threads_mutex);
    threads.push_back(sums);
  }
  return *sums;
}

std::unique_ptr<at::ObserverContext> on_operator_enter(const at::RecordFunction& /*function*/) {
  const SpanRecorder* spans = SpanRecorder::current();
  ThreadSums& thread = sums_of_this_thread();
  thread.open.push_back({.span = spans != nullptr ? spans->open_span() : ""});
  thread.open.back().start_ns = now_ns();
  return nullptr;
}

void on_operator_exit(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  const std::int64_t time = now_ns();
  ThreadSums& thread = sums_of_this_thread();
  if (thread.open.empty()) return;
  const OpenOperator ended = thread.open.back();
  thread.open.pop_back();
  const std::int64_t total = time - ended.start_ns;
  if (!thread.open.empty()) thread.open.back().inner_ns += total;
  Sum& sum = thread.sum_of(ended.span, function.name());
  sum.calls += 1;
  sum.total_ns += total;
  sum.self_ns += total - ended.inner_ns;
}

}  // namespace

struct OperatorRecorder::State {
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};

OperatorRecorder::OperatorRecorder() : state_(std::make_unique<State>()) {
  {
    const std::scoped_lock lock(threads_mutex);
    threads.clear();
  }
  ++recording;
  state_->handle = at::addGlobalCallback(
      at::RecordFunctionCallback(on_operator_enter, on_operator_exit)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperatorRecorder::~OperatorRecorder() {
  if (state_->handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(state_->handle);
}

std::vector<OperatorTotal> OperatorRecorder::stop() {
  at::removeCallback(std::exchange(state_->handle, at::INVALID_CALLBACK_HANDLE));
  std::map<std::pair<std::string, std::string>, Sum> merged;
  const std::scoped_lock lock(threads_mutex);
  for (const auto& thread : threads) {
    for (const auto& [span, sums] : thread->by_span) {
      for (const auto& [name, sum] : sums) {
        Sum& into = merged[{name, span}];
        into.calls += sum.calls;
        into.total_ns += sum.total_ns;
        into.self_ns += sum.self_ns;
      }
    }
  }
  threads.clear();
  std::vector<OperatorTotal> result;
  result.reserve(merged.size());
  for (const auto& [key, sum] : merged) {
    result.push_back({key.first, key.second, sum.calls, sum.total_ns, sum.self_ns});
  }
  return result;
}

}  // namespace autotuned::profiler
