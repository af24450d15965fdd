// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/trace_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "profiler/traces/collective_size.hpp"
#include "profiler/traces/numbers.hpp"

namespace autotuned::traces {
namespace {

constexpr std::size_t kMaxUnknownCategories = 8;
constexpr std::size_t kLongestCategory = 40;
constexpr std::size_t kMaxPythonCalls = 4'000'000;  // 128 MB
// 115 days, the most time of all events together: no sum of them overflows.
constexpr std::int64_t kMaxTimeNs = 10'000'000'000'000'000;

float figure_from(std::string_view token) {
  float value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  const bool is_good = error == std::errc() && std::isfinite(value) && value >= 0;
  return is_good ? value : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

Category TraceBuilder::category_named(std::string_view text) {
  const NameId id = categories_.intern(text);
  if (id == known_categories_.size()) known_categories_.push_back(category_of(text));
  return known_categories_[id];
}

void TraceBuilder::add(const RawEvent& event, std::int64_t offset) {
  if (event.phase == "i") {
    if (event.name == "[memory]") add_memory(event, offset);
    return;
  }
  if (event.phase == "M") {
    if (event.name == "thread_name" && !event.label.empty()) {
      std::int64_t invalid = 0;
      trace_.threads[thread_index(event)].name = unescaped(event.label, invalid);
    }
    return;
  }
  if (event.phase != "X") {
    if (event.phase.empty()) note("has no \"ph\" and was left out", offset);
    return;
  }
  const Category category = category_named(event.category);
  if (category == Category::python_function && keeps_stacks_) add_python_call(event, offset);
  if (category == Category::unknown) {
    ++unknown_categories_[std::string(event.category.substr(0, kLongestCategory))];
    // A hostile file may have a million different ones.
    if (unknown_categories_.size() > kMaxUnknownCategories) {
      unknown_categories_.erase(std::prev(unknown_categories_.end()));
    }
  }
  const bool may_be_module = category == Category::python_function;
  if (may_be_module ? !event.name.starts_with(kModulePrefix) : !kind_of(category, {})) return;
  const NameId name = name_id(event.name, offset);
  EventKind kind = *kind_of(category, trace_.names.text(name));
  // Our own traces name the forward of a module by the path of the module.
  if (kind == EventKind::annotation && !event.module.empty() && event.module == event.name) {
    kind = EventKind::module;
  }
  add_duration(kind, name, event, offset);
}

void TraceBuilder::add_duration(EventKind kind, NameId name, const RawEvent& event,
                                std::int64_t offset) {
  const auto start = nanoseconds_from(event.start);
  auto length = nanoseconds_from(event.length);
  if (!start || !length) {
    note("has no usable \"ts\" and \"dur\" and was left out", offset);
    return;
  }
  if (*length < 0) {
    note("has a negative \"dur\", taken as 0", offset);
    length = 0;
  }
  if (*length > kMaxTimeNs - time_ns_) {
    note("is too long to be true and was left out", offset);
    return;
  }
  time_ns_ += *length;
  Events& events = trace_.events;
  events.kind.push_back(kind);
  events.name.push_back(name);
  events.thread.push_back(thread_index(event));
  events.start_ns.push_back(*start);
  events.length_ns.push_back(*length);
  const std::int64_t correlation = integer_from(event.correlation).value_or(kNoId);
  // If Kineto knows no operator, it writes the correlation, which may equal the id of any operator.
  const std::int64_t id = integer_from(event.external_id).value_or(kNoId);
  events.external_id.push_back(id == correlation ? kNoId : id);
  events.correlation.push_back(correlation);
  events.detail.push_back(detail_of(kind, event));
  events.module.push_back(event.module.empty() ? kNoDetail : name_id(event.module, offset));
  const bool is_operator = kind == EventKind::cpu_operator;
  if (keeps_stacks_ && is_operator && !event.call_stack.empty()) {
    trace_.call_stacks.push_back({.row = static_cast<std::uint32_t>(events.kind.size() - 1),
                                  .text = name_id(event.call_stack, offset)});
  }
  if (const auto bytes = collective_bytes(kind, event)) {
    trace_.collectives.push_back({.row = static_cast<std::uint32_t>(events.kind.size() - 1),
                                  .name = name_id(event.collective, offset),
                                  .bytes = *bytes});
  }
  const auto text_id = [&](std::string_view text) {
    return is_operator && !text.empty() ? trace_.names.intern(text) : kNoDetail;
  };
  events.shapes.push_back(text_id(event.input_shapes));
  events.values.push_back(text_id(event.input_values));
  const std::int64_t sequence = integer_from(event.sequence).value_or(kNoId);
  events.sequence.push_back(is_operator && sequence >= 0 ? sequence : kNoId);
  const std::int64_t counting = integer_from(event.forward_thread).value_or(0);
  events.is_backward.push_back(counting > 0);
  constexpr std::int64_t kMaxThread = std::numeric_limits<std::uint32_t>::max();
  events.forward_thread.push_back(
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(counting, 0, kMaxThread)));
  if (kind == EventKind::module) trace_.has_modules = true;
}

std::uint32_t TraceBuilder::detail_of(EventKind kind, const RawEvent& event) {
  if (kind == EventKind::cpu_operator && !event.input_types.empty()) {
    trace_.has_input_types = true;
    return trace_.names.intern(event.input_types);
  }
  if (!is_on_device(kind)) return kNoDetail;
  DeviceDetail detail;
  detail.device = small_integer_from(event.device);
  // Traces of some back ends name the device only by the process.
  if (detail.device < 0) detail.device = small_integer_from(event.process);
  detail.stream = small_integer_from(event.stream.empty() ? event.thread : event.stream);
  detail.bytes = std::max<std::int64_t>(integer_from(event.bytes).value_or(0), 0);
  detail.blocks_per_sm = figure_from(event.blocks_per_sm);
  detail.occupancy_percent = figure_from(event.occupancy);
  trace_.details.push_back(detail);
  return static_cast<std::uint32_t>(trace_.details.size() - 1);
}

void TraceBuilder::add_memory(const RawEvent& event, std::int64_t offset) {
  const auto time = nanoseconds_from(event.start);
  const auto bytes = integer_from(event.bytes);
  if (!time || !bytes) {
    note("is an allocation without time or size and was left out", offset);
    return;
  }
  trace_.memory.push_back({.time_ns = *time,
                           .bytes = *bytes,
                           .allocated_bytes = integer_from(event.allocated).value_or(0),
                           .reserved_bytes = integer_from(event.reserved).value_or(0),
                           .device_type = small_integer_from(event.device_type),
                           .device = small_integer_from(event.device_id),
                           .thread = thread_index(event),
                           .address = integer_from(event.address).value_or(kNoId)});
}

void TraceBuilder::add_python_call(const RawEvent& event, std::int64_t offset) {
  if (trace_.python_calls.size() >= kMaxPythonCalls) {
    ++python_calls_left_out_;
    return;
  }
  const auto start = nanoseconds_from(event.start);
  const auto length = nanoseconds_from(event.length);
  if (!start || !length || *length < 0 || *length > kMaxTimeNs - python_time_ns_) {
    note("is a call of a Python function without usable times and is in no stack", offset);
    return;
  }
  python_time_ns_ += *length;
  trace_.python_calls.push_back({.thread = thread_index(event),
                                 .name = name_id(event.name, offset),
                                 .start_ns = *start,
                                 .length_ns = *length,
                                 .id = small_integer_from(event.python_id),
                                 .caller = small_integer_from(event.python_caller)});
}

NameId TraceBuilder::name_id(std::string_view content, std::int64_t offset) {
  if (content.find('\\') == std::string_view::npos) return trace_.names.intern(content);
  std::int64_t invalid = 0;
  const NameId id = trace_.names.intern(unescaped(content, invalid));
  if (invalid > 0) note("has a name with an escape that JSON does not know, kept as it is", offset);
  return id;
}

std::uint32_t TraceBuilder::thread_index(const RawEvent& event) {
  const std::uint64_t key = (std::uint64_t{thread_words_.intern(event.process)} << 32U) |
                            thread_words_.intern(event.thread);
  const auto [found, is_new] =
      thread_indices_.try_emplace(key, static_cast<std::uint32_t>(trace_.threads.size()));
  if (is_new) trace_.threads.push_back({std::string(event.process), std::string(event.thread), {}});
  return found->second;
}

void TraceBuilder::note(const std::string& what, std::int64_t offset) {
  Mishap& mishap = mishaps_[what];
  if (mishap.count++ == 0) mishap.first_offset = offset;
}

Trace TraceBuilder::take() {
  for (const auto& [what, mishap] : mishaps_) {
    trace_.damage.push_back(fmt::format(
        "{} {} (the first at byte {})",
        mishap.count == 1 ? "one event" : format_count(mishap.count) + " events, each of which",
        what, format_count(mishap.first_offset)));
  }
  for (const auto& [category, count] : unknown_categories_) {
    trace_.notes.push_back(fmt::format("{} of the unknown category \"{}\" {} passed over",
                                       format_counted(count, "event"), category,
                                       count == 1 ? "was" : "were"));
  }
  if (python_calls_left_out_ > 0) {
    trace_.notes.push_back(fmt::format(
        "call stacks know the first {} calls of Python functions only: {} more were passed over",
        format_count(kMaxPythonCalls), format_count(python_calls_left_out_)));
  }
  Trace trace = std::move(trace_);
  *this = TraceBuilder(keeps_stacks_);
  return trace;
}

}  // namespace autotuned::traces
