// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/writer.hpp"

#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/utf8.hpp"

namespace autotuned::traces {
namespace {

constexpr std::size_t kFlushBytes = 256U << 10U;
// Kineto's base time. Microseconds since 1970 with three decimals do not fit into a double; those of three months do.
constexpr std::int64_t kBaseStepNs = 7'889'238LL * 1'000'000'000;
// Sorts after every process and thread.
constexpr int kLastPlace = 536'870'912;
// Larger than every process number: Linux has none as large.
constexpr int kFirstDevicePlace = 4'194'305;

bool is_plain(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code >= 0x20 && code < 0x7F && byte != '"' && byte != '\\';
}

void append_number(std::string& text, std::int64_t value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

// Microseconds, exactly.
void append_microseconds(std::string& text, std::int64_t ns) {
  std::uint64_t positive = static_cast<std::uint64_t>(ns);
  if (ns < 0) {
    text += '-';
    positive = std::uint64_t{0} - positive;
  }
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), positive / 1000).ptr;
  text.append(digits.data(), end);
  const auto rest = static_cast<unsigned>(positive % 1000);
  const std::array<char, 4> decimals = {'.', static_cast<char>('0' + rest / 100),
                                        static_cast<char>('0' + rest / 10 % 10),
                                        static_cast<char>('0' + rest % 10)};
  text.append(decimals.data(), decimals.size());
}

void append_escaped(std::string& text, std::string_view rest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  while (!rest.empty()) {
    std::size_t plain = 0;
    while (plain < rest.size() && is_plain(rest[plain]))
      ++plain;
    text += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.empty()) return;
    const char byte = rest.front();
    const auto code = static_cast<unsigned char>(byte);
    std::size_t length = 1;
    if (byte == '"' || byte == '\\') {
      text += '\\';
      text += byte;
    } else if (code < 0x20 || code == 0x7F) {
      text += "\\u00";
      text += kDigits[code >> 4U];
      text += kDigits[code & 0xFU];
    } else if (const std::size_t bytes = utf8_length(rest); bytes > 0) {
      text += rest.substr(0, bytes);
      length = bytes;
    } else {
      text += '?';
    }
    rest.remove_prefix(length);
  }
}

}  // namespace

TraceWriter::TraceWriter(GzipFile file, TraceHeader header)
    : file_(std::move(file)),
      header_(std::move(header)),
      base_ns_(header_.start_ns - header_.start_ns % kBaseStepNs) {}

Result<TraceWriter> TraceWriter::create(const std::filesystem::path& file, TraceHeader header) {
  auto opened = GzipFile::create(file);
  if (!opened) return tl::unexpected(opened.error());
  TraceWriter writer(std::move(*opened), std::move(header));
  std::string& text = writer.buffer_;
  text =
      "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": " + writer.header_.devices_json + ",\n";
  if (writer.header_.has_shapes) text += "  \"record_shapes\": 1,\n";
  if (writer.header_.has_memory) text += "  \"profile_memory\": 1,\n";
  if (writer.header_.cpus > 0) {
    text += "  \"cpusAllowed\": " + std::to_string(writer.header_.cpus) + ",\n";
  }
  if (writer.header_.world_size > 1) {
    text += "  \"distributedInfo\": {\"backend\": \"" + writer.header_.backend +
            "\", \"rank\": " + std::to_string(writer.header_.rank) +
            ", \"world_size\": " + std::to_string(writer.header_.world_size) + "},\n";
  }
  text += "  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": ";
  append_number(text, writer.base_ns_);
  text += ",\n  \"traceEvents\": [";
  std::string name = "\"name\":\"";
  append_escaped(name, writer.header_.process_name);
  const std::int64_t process = writer.header_.process;
  writer.metadata("process_name", process, 0, name + "\"");
  writer.metadata("process_labels", process, 0, "\"labels\":\"CPU\"");
  writer.metadata("process_sort_index", process, 0, "\"sort_index\":" + std::to_string(process));
  return writer;
}

void TraceWriter::begin() {
  end_event();
  if (buffer_.size() >= kFlushBytes) {
    file_.write(buffer_);
    buffer_.clear();
  }
  buffer_ += is_first_ ? "\n" : ",\n";
  is_first_ = false;
}

void TraceWriter::end_event() {
  if (!std::exchange(is_event_open_, false)) return;
  buffer_ += std::exchange(has_arguments_, false) ? "}}" : "}";
}

void TraceWriter::put_number(std::int64_t value) {
  append_number(buffer_, value);
}

void TraceWriter::put_text(std::string_view text) {
  buffer_ += '"';
  append_escaped(buffer_, text);
  buffer_ += '"';
}

void TraceWriter::put_place(std::int64_t process, std::int64_t thread) {
  buffer_ += ",\"pid\":";
  put_number(process);
  buffer_ += ",\"tid\":";
  put_number(thread);
}

void TraceWriter::put_time(std::string_view key, std::int64_t ns) {
  buffer_ += ",\"";
  buffer_ += key;
  buffer_ += "\":";
  append_microseconds(buffer_, ns);
}

void TraceWriter::metadata(std::string_view name, std::int64_t process, std::int64_t thread,
                           std::string_view arguments) {
  begin();
  buffer_ += R"({"ph":"M","name":")";
  buffer_ += name;
  buffer_ += '"';
  put_time("ts", header_.start_ns - base_ns_);
  put_place(process, thread);
  buffer_ += ",\"args\":{";
  buffer_ += arguments;
  buffer_ += "}}";
}

void TraceWriter::name_thread(std::int64_t thread, std::string_view name, int place) {
  std::string arguments = "\"name\":\"";
  append_escaped(arguments, name);
  metadata("thread_name", header_.process, thread, arguments + "\"");
  metadata("thread_sort_index", header_.process, thread, "\"sort_index\":" + std::to_string(place));
}

void TraceWriter::name_device(std::int64_t device) {
  std::string name = "\"name\":\"";
  append_escaped(name, header_.process_name);
  metadata("process_name", device, 0, name + "\"");
  metadata("process_labels", device, 0, "\"labels\":\"GPU " + std::to_string(device) + "\"");
  metadata("process_sort_index", device, 0,
           "\"sort_index\":" + std::to_string(kFirstDevicePlace + device));
}

void TraceWriter::name_stream(std::int64_t device, std::int64_t stream) {
  metadata("thread_name", device, stream, "\"name\":\"stream " + std::to_string(stream) + "\"");
  metadata("thread_sort_index", device, stream, "\"sort_index\":" + std::to_string(stream));
}

void TraceWriter::begin_event(std::string_view category, std::string_view name, std::int64_t thread,
                              std::int64_t start_ns, std::int64_t length_ns) {
  begin_at(category, name, header_.process, thread, start_ns, length_ns);
}

void TraceWriter::begin_device_event(std::string_view category, std::string_view name,
                                     std::int64_t device, std::int64_t stream,
                                     std::int64_t start_ns, std::int64_t length_ns) {
  begin_at(category, name, device, stream, start_ns, length_ns);
}

void TraceWriter::begin_at(std::string_view category, std::string_view name, std::int64_t process,
                           std::int64_t thread, std::int64_t start_ns, std::int64_t length_ns) {
  begin();
  buffer_ += R"({"ph":"X","cat":)";
  put_text(category);
  buffer_ += ",\"name\":";
  put_text(name);
  put_place(process, thread);
  put_time("ts", start_ns - base_ns_);
  put_time("dur", length_ns);
  is_event_open_ = true;
  ++events_;
}

void TraceWriter::argument_json(std::string_view key, std::string_view json) {
  assert(is_event_open_);
  buffer_ += std::exchange(has_arguments_, true) ? "," : ",\"args\":{";
  put_text(key);
  buffer_ += ':';
  buffer_ += json;
}

void TraceWriter::argument(std::string_view key, std::int64_t value) {
  argument_json(key, {});
  put_number(value);
}

void TraceWriter::argument_figure(std::string_view key, double value) {
  assert(std::isfinite(value));
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  argument_json(key, {digits.data(), end});
}

void TraceWriter::argument(std::string_view key, std::string_view text) {
  argument_json(key, {});
  put_text(text);
}

void TraceWriter::link_forward_to_backward(std::int64_t id, std::int64_t from_thread,
                                           std::int64_t from_ns, std::int64_t to_thread,
                                           std::int64_t to_ns) {
  put_flow_end("s", "fwdbwd", id, header_.process, from_thread, from_ns);
  buffer_ += '}';
  put_flow_end("f", "fwdbwd", id, header_.process, to_thread, to_ns);
  buffer_ += R"(,"bp":"e"})";
}

void TraceWriter::link_call_to_work(std::int64_t id, std::int64_t thread, std::int64_t call_ns,
                                    std::int64_t device, std::int64_t stream,
                                    std::int64_t work_ns) {
  put_flow_end("s", "ac2g", id, header_.process, thread, call_ns);
  buffer_ += '}';
  put_flow_end("f", "ac2g", id, device, stream, work_ns);
  buffer_ += R"(,"bp":"e"})";
}

void TraceWriter::put_flow_end(std::string_view phase, std::string_view category, std::int64_t id,
                               std::int64_t process, std::int64_t thread, std::int64_t ns) {
  begin();
  buffer_ += "{\"ph\":\"";
  buffer_ += phase;
  buffer_ += R"(","cat":")";
  buffer_ += category;
  buffer_ += R"(","name":")";
  buffer_ += category;
  buffer_ += R"(","id":)";
  put_number(id);
  put_place(process, thread);
  put_time("ts", ns - base_ns_);
}

void TraceWriter::memory_change(const MemoryChange& change, std::int64_t thread) {
  begin();
  buffer_ += R"({"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]")";
  put_place(header_.process, thread);
  put_time("ts", change.time_ns - base_ns_);
  buffer_ += ",\"args\":{\"Total Reserved\":";
  put_number(change.reserved_bytes);
  buffer_ += ",\"Total Allocated\":";
  put_number(change.allocated_bytes);
  buffer_ += ",\"Bytes\":";
  put_number(change.bytes);
  buffer_ += ",\"Device Id\":";
  put_number(change.device);
  buffer_ += ",\"Device Type\":";
  put_number(change.device_type);
  buffer_ += ",\"Addr\":";
  buffer_ += std::to_string(change.address);
  buffer_ += "}}";
  ++events_;
}

Result<WrittenTrace> TraceWriter::finish(std::int64_t end_ns, std::int64_t lost_events,
                                         const std::vector<std::string>& notes) {
  const auto add = [&](std::string_view head, std::int64_t ns, std::string_view tail) {
    begin();
    buffer_ += head;
    put_time("ts", ns - base_ns_);
    buffer_ += tail;
  };
  add(R"-({"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans",)-"
      R"("tid":"PyTorch Profiler")",
      header_.start_ns, "");
  put_time("dur", end_ns - header_.start_ns);
  buffer_ += ",\"args\":{\"Op count\":0}}";
  add(R"({"ph":"M","name":"process_sort_index","pid":"Spans","tid":0)", header_.start_ns,
      ",\"args\":{\"sort_index\":" + std::to_string(kLastPlace) + "}}");
  add(R"({"ph":"i","s":"g","name":"Iteration Start: PyTorch Profiler","pid":"Traces",)"
      R"("tid":"Trace PyTorch Profiler")",
      header_.start_ns, "}");
  add(R"({"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"")", end_ns, "}");
  buffer_ += "\n  ],\n  \"lostEvents\": ";
  put_number(lost_events);
  if (!notes.empty()) {
    buffer_ += ",\n  \"recordingNotes\": [";
    for (std::size_t i = 0; i < notes.size(); ++i) {
      if (i > 0) buffer_ += ", ";
      put_text(notes[i]);
    }
    buffer_ += ']';
  }
  buffer_ += kTraceEnd;
  file_.write(buffer_);
  buffer_.clear();
  auto bytes = file_.close();
  if (!bytes) return tl::unexpected(bytes.error());
  return WrittenTrace{events_, *bytes};
}

}  // namespace autotuned::traces
