// SPDX-License-Identifier: Apache-2.0
#include "daemon/logs/event_file.hpp"

#include <fmt/format.h>

#include <bit>
#include <boost/crc.hpp>
#include <cstddef>

namespace autotuned::daemon {
namespace {

// Kinds of fields on the wire.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Numbers of fields, as TensorFlow's event.proto and summary.proto have them.
constexpr std::uint32_t kEventWallTime = 1;     // double: seconds
constexpr std::uint32_t kEventStep = 2;         // int64
constexpr std::uint32_t kEventFileVersion = 3;  // string
constexpr std::uint32_t kEventSummary = 5;
constexpr std::uint32_t kSummaryValue = 1;
constexpr std::uint32_t kValueTag = 1;          // string
constexpr std::uint32_t kValueSimpleValue = 2;  // float
constexpr const char* kFileVersion = "brain.Event:2";

double seconds(std::int64_t unix_ns) {
  return static_cast<double>(unix_ns) / 1e9;
}

void add_little_endian(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    to.push_back(static_cast<char>((value >> (8 * i)) & 0xFFU));
}

void add_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U)
    to.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
  to.push_back(static_cast<char>(value));
}

void add_key(std::string& to, std::uint32_t field, Wire wire) {
  add_varint(to, (std::uint64_t{field} << 3U) | static_cast<std::uint64_t>(wire));
}

void add_bytes(std::string& to, std::uint32_t field, std::string_view bytes) {
  add_key(to, field, Wire::bytes);
  add_varint(to, bytes.size());
  to += bytes;
}

std::string event_begin(std::int64_t unix_ns) {
  std::string event;
  add_key(event, kEventWallTime, Wire::fixed64);
  add_little_endian(event, std::bit_cast<std::uint64_t>(seconds(unix_ns)), 8);
  return event;
}

std::string scalar_event(const LogPoint& point) {
  std::string value;
  add_bytes(value, kValueTag, point.name);
  add_key(value, kValueSimpleValue, Wire::fixed32);
  add_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(point.value)), 4);
  std::string summary;
  add_bytes(summary, kSummaryValue, value);
  std::string event = event_begin(point.unix_ns);
  add_key(event, kEventStep, Wire::varint);
  add_varint(event, static_cast<std::uint64_t>(point.step));
  add_bytes(event, kEventSummary, summary);
  return event;
}

// Length, its checksum, the bytes, their checksum.
void add_record(std::string& to, std::string_view bytes) {
  std::string length;
  add_little_endian(length, bytes.size(), 8);
  to += length;
  add_little_endian(to, masked_crc32c(length), 4);
  to += bytes;
  add_little_endian(to, masked_crc32c(bytes), 4);
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const auto sum = static_cast<std::uint32_t>(crc.checksum());
  return std::rotr(sum, 15) + 0xA282EAD8U;
}

std::string event_file_name(std::int64_t unix_ns) {
  return fmt::format("events.out.tfevents.{:010}.autotuned", unix_ns / 1'000'000'000);
}

std::string event_file_of(const std::vector<LogPoint>& points, std::int64_t unix_ns) {
  std::string file;
  std::string version = event_begin(unix_ns);
  add_bytes(version, kEventFileVersion, kFileVersion);
  add_record(file, version);
  for (const LogPoint& point : points)
    add_record(file, scalar_event(point));
  return file;
}

}  // namespace autotuned::daemon
