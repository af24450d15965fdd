// SPDX-License-Identifier: Apache-2.0
// Splits a trace into the elements of its list of events, in one pass and with little memory, so that a
// broken event loses only that event and not the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_stream.hpp"

namespace autotuned::traces {

class EventSplitter {
 public:
  explicit EventSplitter(ByteStream& stream) : stream_(stream) {}

  // Reads up to the list of events: the member "traceEvents" of the outermost object, or the outermost list.
  // ErrorKind::corrupt if there is none. Errors of this class name a byte offset, not the file.
  [[nodiscard]] Result<void> find_list();

  // Returns the next element, from '{' to its '}'; nothing at the end of the list. It is valid until the next call, followed
  // by at least kPadding readable bytes. ErrorKind::corrupt if the file ends before the list does, or if
  // nothing after this point can be read. REQUIRES: find_list() succeeded.
  [[nodiscard]] Result<std::optional<std::string_view>> next();

  // Goes back to the next place inside the last element that looks like the beginning of an event, if any. Call it if that element is not
  // JSON: this recovers events after a string without an end.
  void resume_inside();

  // Returns everything except the list (replaced by "[]"), at most kMaxRestBytes. REQUIRES: the list has ended.
  [[nodiscard]] std::string take_rest();

  // The offset of the last element, in bytes of the unpacked file.
  [[nodiscard]] std::int64_t offset() const { return element_offset_; }
  // The number of elements without an end that next() gave up; it continues after their beginning.
  [[nodiscard]] std::int64_t lost() const { return lost_; }

  static constexpr std::size_t kPadding = 64;
  static constexpr std::size_t kMaxElementBytes = std::size_t{32} << 20U;
  static constexpr std::size_t kMaxRestBytes = std::size_t{64} << 20U;

 private:
  // Moves the unread bytes to the front of the buffer and reads more. Returns false at the end of the file.
  bool fill();
  [[nodiscard]] std::optional<char> peek();  // returns the next byte and leaves it unread
  [[nodiscard]] std::optional<char> take();  // the same, but reads it and keeps it in rest_
  [[nodiscard]] std::optional<char> next_visible();
  [[nodiscard]] std::string take_string();
  void take_value();
  // Returns the length of the element at begin_; nothing if the file ends or the limit is reached before its end.
  [[nodiscard]] std::optional<std::size_t> measure_element();
  [[nodiscard]] bool resume_in(std::size_t length);
  [[nodiscard]] tl::unexpected<Error> broken(const std::string& what) const;

  ByteStream& stream_;
  std::string buffer_;  // [begin_, end_) is unread, then at least kPadding more bytes
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::int64_t consumed_ = 0;  // bytes of the file that left the front of buffer_
  std::int64_t element_offset_ = 0;
  std::size_t element_length_ = 0;  // the element lies before begin_
  std::int64_t rescanned_bytes_ = 0;
  std::int64_t lost_ = 0;
  std::optional<Error> stream_error_;
  std::string rest_;
  bool is_bare_list_ = false;
};

}  // namespace autotuned::traces
