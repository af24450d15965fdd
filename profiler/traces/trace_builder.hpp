// SPDX-License-Identifier: Apache-2.0
// Builds the columns of a trace from its events, one at a time, and collects their problems.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiler/traces/classification.hpp"
#include "profiler/traces/raw_event.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::traces {

class TraceBuilder {
 public:
  // `keeps_stacks`: whether to fill Trace::python_calls and Trace::call_stacks.
  explicit TraceBuilder(bool keeps_stacks) : keeps_stacks_(keeps_stacks) {}

  // `offset`: position of the event in the file, in bytes.
  void add(const RawEvent& event, std::int64_t offset);

  // Counts a problem of an event, as the end of a sentence: "is …" or "has …".
  void note(const std::string& what, std::int64_t offset);

  // Returns category_of(), from a cache.
  [[nodiscard]] Category category_named(std::string_view text);

  [[nodiscard]] Trace& trace() { return trace_; }

  // Returns the trace, with damage and notes. The builder is empty afterwards.
  [[nodiscard]] Trace take();

 private:
  // The number of occurrences of a problem, and the place of the first.
  struct Mishap {
    std::int64_t count = 0;
    std::int64_t first_offset = 0;
  };

  void add_duration(EventKind kind, NameId name, const RawEvent& event, std::int64_t offset);
  void add_memory(const RawEvent& event, std::int64_t offset);
  void add_python_call(const RawEvent& event, std::int64_t offset);
  [[nodiscard]] std::uint32_t detail_of(EventKind kind, const RawEvent& event);
  [[nodiscard]] NameId name_id(std::string_view content, std::int64_t offset);
  [[nodiscard]] std::uint32_t thread_index(const RawEvent& event);

  bool keeps_stacks_;
  Trace trace_;
  NameTable categories_;
  std::vector<Category> known_categories_;  // by id
  NameTable thread_words_;
  std::unordered_map<std::uint64_t, std::uint32_t> thread_indices_;
  std::map<std::string, Mishap> mishaps_;
  std::map<std::string, std::int64_t> unknown_categories_;
  std::int64_t time_ns_ = 0;         // sum over all events
  std::int64_t python_time_ns_ = 0;  // sum over all calls of Python functions
  std::int64_t python_calls_left_out_ = 0;
};

}  // namespace autotuned::traces
