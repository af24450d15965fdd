// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/thread_log.hpp"

#include <algorithm>
#include <utility>

#include "profiler/spans.hpp"

namespace autotuned::profiler {
namespace {

// Events that a thread reserves at a time, so that threads rarely contend for the counter.
constexpr std::int64_t kRoomAtOnce = 256;

}  // namespace

thread_local constinit ThreadLog* ThreadLog::current_ = nullptr;

std::int64_t EventQuota::take(std::int64_t wanted) {
  std::int64_t left = left_.load(std::memory_order_relaxed);
  while (left > 0) {
    const std::int64_t taken = std::min(left, wanted);
    if (left_.compare_exchange_weak(left, left - taken, std::memory_order_relaxed)) return taken;
  }
  return 0;
}

ThreadLog::ThreadLog(EventQuota& quota, std::int64_t thread, std::uint64_t logical_thread)
    : quota_(quota) {
  timeline_.thread = thread;
  timeline_.logical_thread = logical_thread;
}

bool ThreadLog::has_room() {
  if (room_here_ == 0) room_here_ = quota_.take(kRoomAtOnce);
  if (room_here_ == 0) {
    quota_.lose();
    return false;
  }
  --room_here_;
  return true;
}

TimelineEvent* ThreadLog::begin(TimelineKind kind, std::string_view name) {
  if (kind != TimelineKind::module) ++depth_;
  if (!has_room()) {
    open_.push_back({kNone, kind});
    return nullptr;
  }
  TimelineEvent& event = timeline_.events.emplace_back();
  event.kind = kind;
  // Events inside an operator belong to the module of the operator, which a script may have named.
  const bool is_inside = kind != TimelineKind::module && parent_ != kNone;
  event.module = is_inside ? timeline_.events[parent_].module : innermost_module();
  event.parent = parent_;
  if (!name.empty()) {
    const auto found = name_ids_.find(name);
    if (found != name_ids_.end()) {
      event.name = found->second;
    } else {
      event.name = static_cast<std::uint32_t>(timeline_.names.size());
      timeline_.names.emplace_back(name);
      name_ids_.emplace(name, event.name);
    }
  }
  parent_ = static_cast<std::uint32_t>(timeline_.events.size() - 1);
  open_.push_back({parent_, kind});
  return &event;
}

void ThreadLog::start_clock() {
  if (open_.empty() || open_.back().event == kNone) return;
  timeline_.events[open_.back().event].start_ns = now_ns();
}

bool ThreadLog::end(std::int64_t time_ns) {
  // No module is open when a recording begins, but a program with an error must not crash here.
  if (open_.empty()) return false;
  const Open ended = open_.back();
  open_.pop_back();
  if (ended.kind != TimelineKind::module) --depth_;
  if (ended.event == kNone) return false;
  TimelineEvent& event = timeline_.events[ended.event];
  event.end_ns = time_ns;
  parent_ = event.parent;
  return true;
}

void ThreadLog::enter_module(const void* module) {
  const std::uint32_t id = module_at(module);
  open_modules_.push_back(id);
  begin(TimelineKind::module, {});
  start_clock();
}

void ThreadLog::leave_module() {
  const std::int64_t time = now_ns();
  open_modules_.pop_back();
  end(time);
}

std::uint32_t ThreadLog::module_named(std::string_view path) {
  const std::uint32_t holder = innermost_module();
  if (std::exchange(path_holder_, holder) != holder) path_ids_.clear();
  if (const auto found = path_ids_.find(path); found != path_ids_.end()) return found->second;
  const auto id = static_cast<std::uint32_t>(module_keys_.size());
  module_keys_.push_back({nullptr, std::string(path), holder});
  path_ids_.emplace(path, id);
  return id;
}

std::uint32_t ThreadLog::module_at(const void* address) {
  const auto [found, is_new] =
      address_ids_.try_emplace(address, static_cast<std::uint32_t>(module_keys_.size()));
  if (is_new) module_keys_.push_back({address, {}, kNone});
  return found->second;
}

std::uint32_t ThreadLog::inputs_id(const OperatorInputs& inputs) {
  const std::string key = inputs.sizes + '\n' + inputs.types + '\n' + inputs.values;
  const auto [found, is_new] =
      input_ids_.try_emplace(key, static_cast<std::uint32_t>(timeline_.inputs.size()));
  if (is_new) timeline_.inputs.push_back(inputs);
  return found->second;
}

void ThreadLog::add_memory(const MemoryEvent& event) {
  if (has_room()) timeline_.memory.push_back(event);
}

}  // namespace autotuned::profiler
