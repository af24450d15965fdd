// SPDX-License-Identifier: Apache-2.0
// Reads event files as the specifications of TFRecord, protobuf's wire format and TensorFlow's event.proto say, and shares
// nothing with what writes them: a checksum bit by bit, fields by their numbers, whatever their order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace autotuned {

struct ReadEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;
  std::string tag;
  float value = 0;
};

class EventReader {
 public:
  // Throws std::runtime_error where the bytes are no event file.
  static std::vector<ReadEvent> read(std::string_view bytes) {
    std::vector<ReadEvent> events;
    while (!bytes.empty()) {
      const std::string_view length = take(bytes, 8);
      check(length, take(bytes, 4));
      const std::string_view record = take(bytes, number(length));
      check(record, take(bytes, 4));
      events.push_back(event_of(record));
    }
    return events;
  }

  // CRC-32C (Castagnoli) of RFC 3720, a bit at a time.
  static std::uint32_t crc32c(std::string_view bytes) {
    std::uint32_t crc = 0xFFFFFFFFU;
    for (const char byte : bytes) {
      crc ^= static_cast<unsigned char>(byte);
      for (int bit = 0; bit < 8; ++bit)
        crc = (crc & 1U) != 0 ? (crc >> 1U) ^ 0x82F63B78U : crc >> 1U;
    }
    return ~crc;
  }

 private:
  static std::string_view take(std::string_view& bytes, std::uint64_t count) {
    if (count > bytes.size()) throw std::runtime_error("the file ends inside of a record");
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }

  static std::uint64_t number(std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }

  static void check(std::string_view bytes, std::string_view stored) {
    const std::uint32_t masked = static_cast<std::uint32_t>(number(stored)) - 0xA282EAD8U;
    // Turned to the right by 15 bits when it was written.
    const std::uint32_t crc = (masked >> 17U) | (masked << 15U);
    if (crc != crc32c(bytes)) throw std::runtime_error("a checksum is wrong");
  }

  static std::uint64_t varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(bytes, 1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    throw std::runtime_error("a number has no end");
  }

  struct Field {
    std::uint64_t number = 0;
    std::uint64_t integer = 0;
    std::string_view bytes;
  };

  static Field next(std::string_view& message) {
    const std::uint64_t key = varint(message);
    Field field{.number = key >> 3U, .integer = 0, .bytes = {}};
    switch (key & 7U) {
      case 0:
        field.integer = varint(message);
        break;
      case 1:
        field.integer = number(take(message, 8));
        break;
      case 2: {
        const std::uint64_t length = varint(message);
        field.bytes = take(message, length);
        break;
      }
      case 5:
        field.integer = number(take(message, 4));
        break;
      default:
        throw std::runtime_error("an unknown kind of field");
    }
    return field;
  }

  static ReadEvent event_of(std::string_view message) {
    ReadEvent event;
    while (!message.empty()) {
      const Field field = next(message);
      if (field.number == 1) event.wall_time = std::bit_cast<double>(field.integer);
      if (field.number == 2) event.step = static_cast<std::int64_t>(field.integer);
      if (field.number == 3) event.file_version = field.bytes;
      if (field.number == 5) read_summary(field.bytes, event);
    }
    return event;
  }

  static void read_summary(std::string_view message, ReadEvent& event) {
    while (!message.empty()) {
      const Field value = next(message);
      if (value.number != 1) continue;
      std::string_view fields = value.bytes;
      while (!fields.empty()) {
        const Field field = next(fields);
        if (field.number == 1) event.tag = field.bytes;
        if (field.number == 2) {
          event.value = std::bit_cast<float>(static_cast<std::uint32_t>(field.integer));
        }
      }
    }
  }
};

}  // namespace autotuned
