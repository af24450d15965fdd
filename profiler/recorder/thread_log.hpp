// SPDX-License-Identifier: Apache-2.0
// The log of a thread while a timeline is recorded. The part that uses LibTorch is in torch_timeline.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiler/recorder/timeline.hpp"

namespace autotuned::profiler {

// The number of events that may still be recorded, over all threads. Any thread may call it.
class EventQuota {
 public:
  explicit EventQuota(std::int64_t events) : left_(events) {}

  // Reserves up to `wanted` events and returns how many; 0 if there is no room.
  [[nodiscard]] std::int64_t take(std::int64_t wanted);
  void lose() { lost_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> left_;
  std::atomic<std::int64_t> lost_{0};
};

// The events of one thread, which alone writes. REQUIRES: it is read after that thread has stopped recording.
class ThreadLog {
 public:
  // Identifies a module by its address, or by its path below the module that runs the script.
  struct ModuleKey {
    const void* address = nullptr;
    std::string path;
    std::uint32_t holder = kNone;  // another key
  };

  ThreadLog(EventQuota& quota, std::int64_t thread, std::uint64_t logical_thread);

  // The log of the calling thread; null if the thread does not record.
  [[nodiscard]] static ThreadLog* current() { return current_; }
  static void set_current(ThreadLog* log) { current_ = log; }

  void enter_module(const void* module);
  void leave_module();

  // Begins an event inside the open ones and returns it; null if there is no room. Its time starts with start_clock(), so that the work
  // in between is not counted.
  TimelineEvent* begin(TimelineKind kind, std::string_view name);
  void start_clock();
  // Ends the event that began last. Returns false if there was no room for it.
  bool end(std::int64_t time_ns);
  // The index of the event that began last. REQUIRES: there was room for it.
  [[nodiscard]] std::size_t last_event() const { return timeline_.events.size() - 1; }
  // Whether that event is inside of no other operator or node.
  [[nodiscard]] bool is_outermost() const { return depth_ == 0; }

  // The id of a module by its path below the innermost open module.
  std::uint32_t module_named(std::string_view path);
  std::uint32_t module_at(const void* address);
  std::uint32_t inputs_id(const OperatorInputs& inputs);
  void add_memory(const MemoryEvent& event);

  // Returns everything recorded. The log must not be used afterwards. Modules in the result are indices into module_keys().
  [[nodiscard]] ThreadTimeline take() { return std::move(timeline_); }
  [[nodiscard]] const std::vector<ModuleKey>& module_keys() const { return module_keys_; }

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  using TextIds = std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>>;

  [[nodiscard]] bool has_room();
  [[nodiscard]] std::uint32_t innermost_module() const {
    return open_modules_.empty() ? kNone : open_modules_.back();
  }

  static thread_local constinit ThreadLog* current_;

  EventQuota& quota_;
  std::int64_t room_here_ = 0;
  ThreadTimeline timeline_;
  struct Open {
    std::uint32_t event = kNone;  // kNone if there was no room
    TimelineKind kind = TimelineKind::operation;
  };
  std::vector<Open> open_;  // innermost last
  std::vector<std::uint32_t> open_modules_;
  std::uint32_t parent_ = kNone;
  int depth_ = 0;  // open operators and nodes
  TextIds name_ids_;
  TextIds input_ids_;
  TextIds path_ids_;  // below path_holder_
  std::uint32_t path_holder_ = kNone;
  std::unordered_map<const void*, std::uint32_t> address_ids_;
  std::vector<ModuleKey> module_keys_;
};

// Marks the forward of a module for its own lifetime. Without a recording it costs one branch on
// a thread-local pointer. The address identifies the module; the recorder knows its path.
class ModuleSpan {
 public:
  explicit ModuleSpan(const void* module) : log_(ThreadLog::current()) {
    if (log_ != nullptr) [[unlikely]]
      log_->enter_module(module);
  }
  ~ModuleSpan() {
    if (log_ != nullptr) [[unlikely]]
      log_->leave_module();
  }
  ModuleSpan(const ModuleSpan&) = delete;
  ModuleSpan& operator=(const ModuleSpan&) = delete;

 private:
  ThreadLog* log_;
};

}  // namespace autotuned::profiler
