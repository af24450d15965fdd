// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/event_splitter.hpp"

#include <emmintrin.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/text.hpp"

namespace autotuned::traces {
namespace {

#ifdef AUTOTUNED_SHORT_READS
constexpr std::size_t kReadBytes = 1024;
#else
constexpr std::size_t kReadBytes = std::size_t{1} << 20U;
#endif
// The most bytes that are read again, so that a hostile file cannot cause it again and again.
constexpr std::int64_t kMaxRescannedBytes = std::int64_t{512} << 20U;
constexpr std::size_t kLongestKey = 64;

bool is_blank(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

// Returns the position of the first quotation mark or backslash from `at` on; with `outside` of a string also of the first bracket or
// brace. REQUIRES: there is one, with 16 readable bytes after it.
std::size_t next_special(const char* text, std::size_t at, bool outside) {
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  // Turns a bracket into a brace, and no other character into one.
  const __m128i lower = _mm_set1_epi8(0x20);
  const __m128i open = _mm_set1_epi8('{');
  const __m128i close = _mm_set1_epi8('}');
  for (;; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at));
    __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
    if (outside) {
      const __m128i braces = _mm_or_si128(bytes, lower);
      hits = _mm_or_si128(
          hits, _mm_or_si128(_mm_cmpeq_epi8(braces, open), _mm_cmpeq_epi8(braces, close)));
    }
    if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(hits))) {
      return at + static_cast<std::size_t>(std::countr_zero(mask));
    }
  }
}

// Returns the position in `text`, after its beginning, at which an event seems to begin: an object whose first key is "ph".
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
  const auto count = stream_.read_some(
      {reinterpret_cast<std::uint8_t*>(buffer_.data() + end_), buffer_.size() - kPadding - end_});
  if (count) {
    end_ += *count;
  } else {
    stream_error_ = count.error();
    if (stream_error_->kind == ErrorKind::corrupt) {
      stream_error_->what = "the compressed data is damaged (" + stream_error_->what + ")";
    }
  }
  buffer_[end_] = '"';  // ends the search of next_special()
  return count && *count > 0;
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

// Only the beginning of the string is kept, because no key that is needed is longer.
std::string EventSplitter::take_string() {
  std::string text;
  const auto keep = [&text](char byte) {
    if (text.size() < kLongestKey) text += byte;
  };
  (void)take();
  for (auto byte = take(); byte && *byte != '"'; byte = take()) {
    keep(*byte);
    if (*byte != '\\') continue;
    if (const auto escaped = take()) keep(*escaped);
  }
  return text;
}

// Up to the ',' or '}' after it.
void EventSplitter::take_value() {
  for (int depth = 0;;) {
    const auto byte = peek();
    if (!byte || (depth == 0 && (*byte == ',' || *byte == '}'))) return;
    if (*byte == '"') {
      (void)take_string();
      continue;
    }
    if (*byte == '{' || *byte == '[') ++depth;
    if (*byte == '}' || *byte == ']') --depth;
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
  std::size_t at = 0;  // relative to begin_, which fill() may move
  int depth = 0;
  bool in_string = false;
  for (;;) {
    if (at >= end_ - begin_) {
      // After an escape at the very end of the buffer, `at` is one byte further.
      if (at > kMaxElementBytes || !fill()) return std::nullopt;
      continue;
    }
    const char* const from = buffer_.data() + begin_;
    const std::size_t length = end_ - begin_;
    at = next_special(from, at, !in_string);
    if (at >= length) continue;
    const char byte = from[at++];
    if (byte == '"') {
      in_string = !in_string;
    } else if (byte == '\\') {
      if (in_string) ++at;
    } else if (byte == '{' || byte == '[') {
      ++depth;
    } else if (--depth == 0) {
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
    if (*byte != '{') {  // blanks, commas, or an element that is not an event
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
