// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/event_splitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/text.hpp"

namespace autotuned::traces {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20U;
// Going back over a hostile file again and again ends here.
constexpr std::int64_t kMaxRescannedBytes = std::int64_t{512} << 20U;

bool is_blank(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

enum class Role : unsigned char { plain, quote, backslash, open, close };

constexpr std::array<Role, 256> roles() {
  std::array<Role, 256> table{};
  table['"'] = Role::quote;
  table['\\'] = Role::backslash;
  table['{'] = table['['] = Role::open;
  table['}'] = table[']'] = Role::close;
  return table;
}
constexpr std::array<Role, 256> kRoles = roles();

Role role_of(char byte) {
  return kRoles[static_cast<unsigned char>(byte)];
}

// Where in `text`, not at its beginning, an event seems to begin: an object whose first key is "ph".
std::size_t find_event(std::string_view text) {
  constexpr std::string_view kKey = "\"ph\"";
  for (std::size_t at = text.find(kKey, 1); at != std::string_view::npos;
       at = text.find(kKey, at + 1)) {
    std::size_t before = at;
    while (before > 0 && is_blank(text[before - 1]))
      --before;
    if (before > 1 && text[before - 1] == '{') return before - 1;
  }
  return std::string_view::npos;
}

}  // namespace

tl::unexpected<Error> EventSplitter::broken(const std::string& what) const {
  if (stream_error_) return tl::unexpected(*stream_error_);
  return fail(ErrorKind::corrupt, what,
              "byte " + format_count(consumed_ + static_cast<std::int64_t>(begin_)));
}

bool EventSplitter::fill() {
  if (stream_error_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    consumed_ += static_cast<std::int64_t>(begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kReadBytes + kPadding) {
    buffer_.resize(std::max(2 * buffer_.size(), end_ + kReadBytes + kPadding));
  }
  const auto count = stream_.read(buffer_.data() + end_, buffer_.size() - kPadding - end_);
  if (!count) stream_error_ = count.error();
  if (!count || *count == 0) return false;
  end_ += *count;
  return true;
}

std::optional<char> EventSplitter::peek() {
  if (begin_ == end_ && !fill()) return std::nullopt;
  return buffer_[begin_];
}

std::optional<char> EventSplitter::take() {
  const auto byte = peek();
  if (!byte) return std::nullopt;
  ++begin_;
  if (rest_.size() < kMaxRestBytes) rest_ += *byte;
  return byte;
}

std::optional<char> EventSplitter::next_visible() {
  auto byte = peek();
  while (byte && is_blank(*byte)) {
    (void)take();
    byte = peek();
  }
  return byte;
}

std::string EventSplitter::take_string() {
  std::string text;
  (void)take();
  for (auto byte = take(); byte && *byte != '"'; byte = take()) {
    text += *byte;
    if (*byte != '\\') continue;
    if (const auto escaped = take()) text += *escaped;
  }
  return text;
}

// Up to the ',' or '}' behind it.
void EventSplitter::take_value() {
  for (int depth = 0;;) {
    const auto byte = peek();
    if (!byte || (depth == 0 && (*byte == ',' || *byte == '}'))) return;
    const Role role = role_of(*byte);
    if (role == Role::quote) {
      (void)take_string();
      continue;
    }
    if (role == Role::open) ++depth;
    if (role == Role::close) --depth;
    (void)take();
  }
}

Result<void> EventSplitter::find_list() {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  while (end_ < kByteOrderMark.size() && fill()) {
  }
  if (std::string_view(buffer_.data(), end_).starts_with(kByteOrderMark)) begin_ = 3;
  const auto first = next_visible();
  if (!first) return broken("the file is empty");
  if (*first == '[') {
    is_bare_list_ = true;
    ++begin_;
    return {};
  }
  if (*first != '{') return broken("this is not JSON");
  (void)take();
  for (;;) {
    auto byte = next_visible();
    while (byte && *byte == ',') {
      (void)take();
      byte = next_visible();
    }
    if (!byte) return broken("the file ends before a list \"traceEvents\"");
    if (*byte == '}') return broken("there is no list \"traceEvents\"");
    if (*byte != '"') return broken("this is not JSON: the name of a member was expected");
    const std::string key = take_string();
    byte = next_visible();
    if (!byte || *byte != ':') {
      return broken(byte ? "this is not JSON: a ':' was expected"
                         : "the file ends before a list \"traceEvents\"");
    }
    (void)take();
    byte = next_visible();
    if (key == "traceEvents") {
      if (!byte || *byte != '[') return broken("\"traceEvents\" is not a list");
      ++begin_;
      rest_ += "[]";
      return {};
    }
    take_value();
    if (rest_.size() >= kMaxRestBytes) return broken("there is too much before the list of events");
  }
}

std::optional<std::size_t> EventSplitter::measure_element() {
  std::size_t at = 0;  // from begin_, which fill() may move
  int depth = 0;
  bool in_string = false;
  for (;;) {
    if (at >= end_ - begin_) {
      // An escape at the very end of what was read leaves `at` one further.
      if (at > kMaxElementBytes || !fill()) return std::nullopt;
      continue;
    }
    const char* const from = buffer_.data() + begin_;
    const std::size_t length = end_ - begin_;
    if (in_string) {
      while (at < length && from[at] != '"' && from[at] != '\\')
        ++at;
      if (at >= length) continue;
      in_string = from[at] == '\\';
      at += in_string ? 2 : 1;
      continue;
    }
    Role role = Role::plain;
    while (at < length && (role = role_of(from[at])) == Role::plain)
      ++at;
    if (at >= length) continue;
    ++at;
    if (role == Role::quote) {
      in_string = true;
    } else if (role == Role::open) {
      ++depth;
    } else if (role == Role::close && --depth == 0) {
      return at;
    }
  }
}

bool EventSplitter::resume_in(std::size_t length) {
  const std::size_t at = find_event({buffer_.data() + begin_, length});
  if (at == std::string_view::npos) return false;
  begin_ += at;
  rescanned_bytes_ += static_cast<std::int64_t>(length - at);
  return true;
}

void EventSplitter::resume_inside() {
  if (rescanned_bytes_ > kMaxRescannedBytes) return;
  begin_ -= element_length_;
  if (!resume_in(element_length_)) begin_ += element_length_;
  element_length_ = 0;
}

Result<std::optional<std::string_view>> EventSplitter::next() {
  for (;;) {
    const auto byte = peek();
    if (!byte) return broken("the file ends inside the list of events");
    if (*byte == ']') {
      ++begin_;
      return std::nullopt;
    }
    if (*byte != '{') {  // blanks and commas, or what is no event
      ++begin_;
      continue;
    }
    element_offset_ = consumed_ + static_cast<std::int64_t>(begin_);
    if (const auto length = measure_element()) {
      const std::string_view element(buffer_.data() + begin_, *length);
      begin_ += *length;
      element_length_ = *length;
      return element;
    }
    const bool is_too_long = end_ - begin_ > kMaxElementBytes;
    if (rescanned_bytes_ > kMaxRescannedBytes || !resume_in(end_ - begin_)) {
      return broken(is_too_long ? "an event has no end within " +
                                      format_bytes(static_cast<std::int64_t>(kMaxElementBytes))
                                : "the file ends inside an event");
    }
    ++lost_;
  }
}

std::string EventSplitter::take_rest() {
  if (is_bare_list_) return "{}";
  while (take() && rest_.size() < kMaxRestBytes) {
  }
  return std::move(rest_);
}

}  // namespace autotuned::traces
