// SPDX-License-Identifier: Apache-2.0
// The only file that includes simdjson: it parses one event at a time, in place.
#include "profiler/traces/reader.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_stream.hpp"
#include "base/memory_reserve.hpp"
#include "base/text.hpp"
#include "profiler/traces/classification.hpp"
#include "profiler/traces/event_splitter.hpp"
#include "profiler/traces/numbers.hpp"
#include "profiler/traces/trace_builder.hpp"
#include "profiler/traces/writer.hpp"

namespace autotuned::traces {
namespace {

namespace json = simdjson::ondemand;
using simdjson::error_code;

constexpr std::size_t kMaxEvents = 200'000'000;  // 9 GB of columns
constexpr std::size_t kMaxRecordingNotes = 32;
constexpr std::size_t kSetUpBytes = std::size_t{64} << 10U;

// simdjson makes its global objects at their first use, in functions that may not throw. If memory ran out there, the process would end.
void set_up_simdjson() {
  [[maybe_unused]] static const bool kIsSetUp = [] {
    const MemoryReserve reserve(kSetUpBytes);
    return !simdjson::get_active_implementation()->name().empty();
  }();
}

// The bytes of a string up to its closing quotation mark, escapes as they are.
std::string_view content_of(json::raw_json_string text) {
  const char* const begin = text.raw();
  const char* end = begin;
  while (*end != '"')
    end += *end == '\\' ? 2 : 1;
  return {begin, static_cast<std::size_t>(end - begin)};
}

struct Field {
  std::string_view key;
  std::string_view RawEvent::*value;
};
constexpr std::array kArguments = {
    Field{"External id", &RawEvent::external_id},
    Field{"external id", &RawEvent::external_id},
    Field{"correlation", &RawEvent::correlation},
    Field{"device", &RawEvent::device},
    Field{"stream", &RawEvent::stream},
    Field{"bytes", &RawEvent::bytes},
    Field{"blocks per SM", &RawEvent::blocks_per_sm},
    Field{"est. achieved occupancy %", &RawEvent::occupancy},
    Field{"Input type", &RawEvent::input_types},
    Field{"Module Hierarchy", &RawEvent::module},
    Field{"Input Dims", &RawEvent::input_shapes},
    Field{"Concrete Inputs", &RawEvent::input_values},
    Field{"Sequence number", &RawEvent::sequence},
    Field{"Fwd thread id", &RawEvent::forward_thread},
    Field{"Bytes", &RawEvent::bytes},
    Field{"Addr", &RawEvent::address},
    Field{"Total Allocated", &RawEvent::allocated},
    Field{"Total Reserved", &RawEvent::reserved},
    Field{"Device Type", &RawEvent::device_type},
    Field{"Device Id", &RawEvent::device_id},
    Field{"name", &RawEvent::label},
    Field{"Call stack", &RawEvent::call_stack},
    Field{"Python id", &RawEvent::python_id},
    Field{"Python parent id", &RawEvent::python_caller},
    Field{"Collective name", &RawEvent::collective},
    Field{"In msg nelems", &RawEvent::collective_elements},
    Field{"dtype", &RawEvent::collective_type},
};
constexpr std::array kMembers = {
    Field{"ph", &RawEvent::phase},   Field{"cat", &RawEvent::category},
    Field{"name", &RawEvent::name},  Field{"pid", &RawEvent::process},
    Field{"tid", &RawEvent::thread}, Field{"ts", &RawEvent::start},
    Field{"dur", &RawEvent::length},
};

template <std::size_t count>
const Field* find_field(const std::array<Field, count>& fields, std::string_view key) {
  for (const Field& field : fields) {
    // Most keys differ in the first byte. Comparing it is cheaper than a call.
    if (field.key.size() == key.size() && field.key[0] == key[0] && field.key == key) return &field;
  }
  return nullptr;
}

// The text of a value: the content of a string, a whole list, a bare word.
error_code text_of(json::value value, std::string_view& text) {
  json::json_type type{};
  if (const auto error = value.type().get(type)) return error;
  if (type == json::json_type::string) {
    json::raw_json_string string;
    if (const auto error = value.get_raw_json_string().get(string)) return error;
    text = content_of(string);
    return simdjson::SUCCESS;
  }
  if (type == json::json_type::array) {
    json::array array;
    if (const auto error = value.get_array().get(array)) return error;
    return array.raw_json().get(text);
  }
  if (type == json::json_type::object) return simdjson::SUCCESS;
  text = trimmed(value.raw_json_token());
  return simdjson::SUCCESS;
}

// Whether everything that is needed from "args" is known, so that the rest (shapes, strides) need not be read.
bool has_arguments(const RawEvent& event, const ReadOptions& options) {
  if (event.external_id.empty()) return false;
  if (event.category == "cpu_op") {
    if (event.name == kCollectiveCall) return false;
    if (options.with_stacks && event.call_stack.empty()) return false;
    return !event.input_types.empty() && !event.input_shapes.empty() && !event.sequence.empty() &&
           !event.forward_thread.empty();
  }
  if (event.correlation.empty()) return false;
  if (event.category == "cuda_runtime" || event.category == "cuda_driver") return true;
  if (event.category != "kernel" || event.device.empty() || event.stream.empty() ||
      event.blocks_per_sm.empty() || event.occupancy.empty()) {
    return false;
  }
  // For collective operations everything is read, because their sizes come last.
  return !event.name.empty() && !is_device_collective(event.name);
}

bool has_members(const RawEvent& event) {
  return !event.phase.empty() && !event.category.empty() && !event.name.empty() &&
         !event.process.empty() && !event.thread.empty() && !event.start.empty() &&
         !event.length.empty();
}

error_code read_arguments(json::object object, RawEvent& event, const ReadOptions& options) {
  for (auto member : object) {
    json::field field;
    if (const auto error = std::move(member).get(field)) return error;
    if (const Field* known = find_field(kArguments, content_of(field.key()))) {
      if (const auto error = text_of(field.value(), event.*known->value)) return error;
      if (has_arguments(event, options)) break;
    }
  }
  return simdjson::SUCCESS;
}

// Stops as soon as `is_enough(event)` is true.
template <class Enough>
error_code read_members(json::object object, RawEvent& event, const ReadOptions& options,
                        const Enough& is_enough) {
  for (auto member : object) {
    json::field field;
    if (const auto error = std::move(member).get(field)) return error;
    const std::string_view key = content_of(field.key());
    if (key == "args") {
      json::object arguments;
      if (field.value().get_object().get(arguments)) continue;  // no object: no arguments
      if (const auto error = read_arguments(arguments, event, options)) return error;
      if (has_members(event)) break;
    } else if (const Field* known = find_field(kMembers, key)) {
      if (const auto error = text_of(field.value(), event.*known->value)) return error;
      if (is_enough(event)) break;
    }
  }
  return simdjson::SUCCESS;
}

class Reader {
 public:
  // `file`: where the errors of the stream are.
  Reader(EventSplitter& splitter, const ReadOptions& options, std::string file)
      : splitter_(splitter),
        options_(options),
        file_(std::move(file)),
        builder_(options.with_stacks) {}

  // Damage is kept for finish(). An error is returned only for a file without any event.
  Result<Trace> read() {
    if (auto found = splitter_.find_list(); !found) return tl::unexpected(found.error());
    std::optional<Error> end;
    while (trace_.events.size() < kMaxEvents) {
      const auto element = splitter_.next();
      if (!element) end = element.error();
      if (!element || !*element) break;
      ++trace_.elements;
      read_element(**element);
    }
    if (trace_.events.size() == 0) {
      if (end) return tl::unexpected(*end);
      return fail(ErrorKind::corrupt,
                  fmt::format("the list of events has nothing to analyse ({} elements)",
                              format_count(trace_.elements)));
    }
    finish(end);
    return builder_.take();
  }

 private:
  void read_element(std::string_view element) {
    RawEvent event;
    error_code error = parse(element, event);
    std::string copy;  // `event` points into this copy
    if (error) {
      copy = mended(element);
      const std::size_t length = copy.size();
      copy.append(EventSplitter::kPadding, ' ');
      event = {};
      error = parse({copy.data(), length}, event);
      builder_.note(error ? "is not JSON and was left out" : "was not JSON and had to be repaired",
                    splitter_.offset());
      if (error) {
        splitter_.resume_inside();
        return;
      }
    }
    builder_.add(event, splitter_.offset());
  }

  // A lack of memory is not an error in the text.
  error_code begin(std::string_view text, json::document& document) {
    const error_code error =
        parser_.iterate(text.data(), text.size(), text.size() + EventSplitter::kPadding)
            .get(document);
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    return error;
  }

  // Stops early at events that are skipped, such as calls of Python functions if stacks are not wanted.
  error_code parse(std::string_view element, RawEvent& event) {
    json::document document;
    if (const auto error = begin(element, document)) return error;
    json::object object;
    if (const auto error = document.get_object().get(object)) return error;
    return read_members(object, event, options_, [&](const RawEvent& so_far) {
      if (!so_far.phase.empty() && so_far.phase != "X" && so_far.phase != "i" &&
          so_far.phase != "M") {
        return true;
      }
      if (so_far.phase != "X" || so_far.category.empty()) return false;
      const Category category = builder_.category_named(so_far.category);
      if (category == Category::python_function) {
        return !options_.with_stacks && !so_far.name.empty() &&
               !so_far.name.starts_with(kModulePrefix);
      }
      return category == Category::passed_over;
    });
  }

  void finish(const std::optional<Error>& end) {
    if (splitter_.lost() > 0) {
      trace_.damage.push_back(format_count(splitter_.lost()) +
                              " events have no end and were left out");
    }
    trace_.is_complete = !end;
    if (end) {
      Error cause = *end;
      // Readers of Trace::damage name the file themselves.
      if (cause.where == file_) cause.where.clear();
      trace_.damage.push_back(cause.message() + "; everything before was read");
    } else if (trace_.events.size() >= kMaxEvents) {
      trace_.damage.push_back("only the first " + format_count(kMaxEvents) + " events were read");
    } else {
      read_rest();
    }
  }

  // Reads the text around the event list: devices and rank.
  void read_rest() {
    std::string rest = splitter_.take_rest();
    const std::size_t length = rest.size();
    rest.append(EventSplitter::kPadding, ' ');
    if (!parse_rest({rest.data(), length})) return;
    std::string copy = mended({rest.data(), length});
    const std::size_t copy_length = copy.size();
    copy.append(EventSplitter::kPadding, ' ');
    if (parse_rest({copy.data(), copy_length})) {
      trace_.damage.emplace_back(
          "the text around the event list is not valid JSON: devices and rank may be missing");
    }
  }

  error_code parse_rest(std::string_view text) {
    trace_.devices.clear();
    trace_.notes.clear();
    json::document document;
    if (const auto error = begin(text, document)) return error;
    json::object object;
    if (const auto error = document.get_object().get(object)) return error;
    for (auto member : object) {
      json::field field;
      if (const auto error = std::move(member).get(field)) return error;
      const std::string_view key = content_of(field.key());
      error_code error = simdjson::SUCCESS;
      if (key == "deviceProperties") error = read_devices(field.value());
      if (key == "distributedInfo") error = read_distribution(field.value());
      if (key == "lostEvents") error = read_lost_events(field.value());
      if (key == "cpusAllowed") error = read_cpus(field.value());
      if (key == "recordingNotes") error = read_recording_notes(field.value());
      if (error && error != simdjson::INCORRECT_TYPE) return error;
    }
    return simdjson::SUCCESS;
  }

  // Calls take(key, text) for each member.
  template <class Take>
  static error_code for_each_text(json::object object, const Take& take) {
    for (auto member : object) {
      json::field field;
      if (const auto error = std::move(member).get(field)) return error;
      std::string_view text;
      const std::string_view key = content_of(field.key());
      if (const auto error = text_of(field.value(), text)) return error;
      take(key, text);
    }
    return simdjson::SUCCESS;
  }

  error_code read_devices(json::value value) {
    json::array list;
    if (const auto error = value.get_array().get(list)) return error;
    for (auto item : list) {
      json::object object;
      if (const auto error = item.get_object().get(object)) return error;
      DeviceProperties device;
      const auto take = [&](std::string_view key, std::string_view text) {
        if (key == "name") device.name = unescaped(text, invalid_escapes_);
        if (key == "id") device.id = small_integer_from(text);
        if (key == "totalGlobalMem") device.memory_bytes = integer_from(text).value_or(0);
        if (key == "computeMajor") device.compute_major = small_integer_from(text);
        if (key == "computeMinor") device.compute_minor = small_integer_from(text);
      };
      if (const auto error = for_each_text(object, take)) return error;
      trace_.devices.push_back(std::move(device));
    }
    return simdjson::SUCCESS;
  }

  error_code read_distribution(json::value value) {
    json::object object;
    if (const auto error = value.get_object().get(object)) return error;
    return for_each_text(object, [this](std::string_view key, std::string_view text) {
      if (key == "rank" && small_integer_from(text) >= 0) trace_.rank = small_integer_from(text);
      if (key == "world_size") trace_.world_size = std::max(small_integer_from(text), 1);
      if (key == "backend") trace_.backend = std::string(text);
    });
  }

  // Our own writer adds this.
  error_code read_cpus(json::value value) {
    std::string_view text;
    if (const auto error = text_of(value, text)) return error;
    trace_.cpus = std::max(small_integer_from(text), 0);
    return simdjson::SUCCESS;
  }

  // Our own writer adds this if the recording was full.
  error_code read_lost_events(json::value value) {
    std::string_view text;
    if (const auto error = text_of(value, text)) return error;
    const std::int64_t lost = integer_from(text).value_or(0);
    if (lost > 0) {
      trace_.notes.push_back("the recording was full: it lost " + format_count(lost) + " events");
    }
    return simdjson::SUCCESS;
  }

  // Our own writer adds this for events that the recording could not see.
  error_code read_recording_notes(json::value value) {
    json::array list;
    if (const auto error = value.get_array().get(list)) return error;
    std::size_t left = kMaxRecordingNotes;
    for (auto item : list) {
      json::raw_json_string text;
      if (const auto error = item.get_raw_json_string().get(text)) return error;
      if (left == 0) continue;
      --left;
      trace_.notes.push_back(unescaped(content_of(text), invalid_escapes_));
    }
    return simdjson::SUCCESS;
  }

  EventSplitter& splitter_;
  ReadOptions options_;
  std::string file_;
  json::parser parser_;
  TraceBuilder builder_;
  Trace& trace_ = builder_.trace();
  std::int64_t invalid_escapes_ = 0;  // in the text around the list; not reported
};

}  // namespace

Result<Trace> read_trace(const std::filesystem::path& file, ReadOptions options) {
  auto stream = ByteStream::open(file);
  if (!stream) {
    Error error = stream.error();
    if (error.kind == ErrorKind::invalid) {
      error.remedy = "name the trace files themselves (*.pt.trace.json or .json.gz)";
    }
    return tl::unexpected(std::move(error));
  }
  set_up_simdjson();
  EventSplitter splitter(*stream);
  auto trace = Reader(splitter, options, file.string()).read();
  if (!trace) {
    Error error = trace.error();
    if (error.where != file.string()) {
      error.where = error.where.empty() ? file.string() : file.string() + ", " + error.where;
    }
    if (error.remedy.empty()) error.remedy = "give a trace that torch.profiler wrote";
    return tl::unexpected(std::move(error));
  }
  trace->file = file.string();
  return trace;
}

bool is_own_trace(const std::filesystem::path& file) {
  constexpr std::size_t kBytes = std::size_t{64} << 10U;
  auto stream = ByteStream::open(file);
  if (!stream) return false;
  std::vector<std::uint8_t> bytes(kBytes);
  std::string end;
  for (;;) {
    const auto count = stream->read_some(bytes);
    if (!count) return false;
    if (*count == 0) return end == kTraceEnd;
    end.append(reinterpret_cast<const char*>(bytes.data()), *count);
    if (end.size() > kTraceEnd.size()) end.erase(0, end.size() - kTraceEnd.size());
  }
}

}  // namespace autotuned::traces
