// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/numbers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/utf8.hpp"

namespace autotuned::traces {
namespace {

constexpr std::int64_t kNsPerUs = 1000;
// 73 years from 1970: sums and differences do not overflow.
constexpr std::int64_t kMaxUs = std::numeric_limits<std::int64_t>::max() / kNsPerUs / 4;

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

// Returns the character of "\uABCD" as UTF-8; nothing if these are not four hexadecimal digits.
std::optional<char32_t> code_unit(std::string_view digits) {
  unsigned value = 0;
  if (digits.size() < 4) return std::nullopt;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + 4, value, 16);
  if (error != std::errc() || end != digits.data() + 4) return std::nullopt;
  return static_cast<char32_t>(value);
}

void append_utf8(std::string& text, char32_t character) {
  const auto add = [&](char32_t byte) {
    text += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (character < 0x80) {
    add(character);
  } else if (character < 0x800) {
    add(0xC0 | (character >> 6));
    add(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    add(0xE0 | (character >> 12));
    add(0x80 | ((character >> 6) & 0x3F));
    add(0x80 | (character & 0x3F));
  } else {
    add(0xF0 | (character >> 18));
    add(0x80 | ((character >> 12) & 0x3F));
    add(0x80 | ((character >> 6) & 0x3F));
    add(0x80 | (character & 0x3F));
  }
}

// Resolves the \u at the front of `rest`, also pairs of surrogates. Returns the number of bytes read; 0 if it is not such an escape. A lone
// half of a pair becomes '?'.
std::size_t append_unicode(std::string& text, std::string_view rest) {
  const auto first = code_unit(rest.substr(2));
  if (!first) return 0;
  if (*first < 0xD800 || *first > 0xDFFF) {
    append_utf8(text, *first);
    return 6;
  }
  if (*first < 0xDC00 && rest.substr(6).starts_with("\\u")) {
    const auto second = code_unit(rest.substr(8));
    if (second && *second >= 0xDC00 && *second <= 0xDFFF) {
      append_utf8(text, 0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00));
      return 12;
    }
  }
  text += '?';
  return 6;
}

std::optional<char> simple_escape(char letter) {
  switch (letter) {
    case '"':
    case '\\':
    case '/':
      return letter;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return std::nullopt;
  }
}

// Microseconds with an exponent → nanoseconds.
std::optional<std::int64_t> from_exponent(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(std::abs(value) <= static_cast<double>(kMaxUs))) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(value * static_cast<double>(kNsPerUs)));
}

bool is_json_word(std::string_view word) {
  if (word == "true" || word == "false" || word == "null") return true;
  if (word.front() == '-') word.remove_prefix(1);
  return !word.empty() && is_digit(word.front());
}

// Copies the string at the front of `rest`, which begins with its quotation mark. Returns the number of bytes read.
std::size_t mend_string(std::string& to, std::string_view rest) {
  to += '"';
  std::size_t at = 1;
  while (at < rest.size() && rest[at] != '"') {
    const auto byte = static_cast<unsigned char>(rest[at]);
    if (byte == '\\' && at + 1 < rest.size()) {
      // The backslash of an escape that JSON does not know becomes a plain backslash.
      const bool is_escape = std::string_view("\"\\/bfnrtu").find(rest[at + 1]) != rest.npos;
      to += is_escape ? rest.substr(at, 2) : std::string_view("\\\\");
      at += is_escape ? 2 : 1;
      continue;
    }
    if (const std::size_t length = byte < 0x80 ? 1 : utf8_length(rest.substr(at))) {
      to += byte < 0x20 ? std::string_view(" ") : rest.substr(at, length);
      at += length;
      continue;
    }
    to += '?';
    ++at;
  }
  to += '"';
  return std::min(at + 1, rest.size());
}

}  // namespace

std::optional<std::int64_t> nanoseconds_from(std::string_view microseconds) {
  std::string_view text = microseconds;
  if (text.size() > 1 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, whole);
  if (error != std::errc()) return std::nullopt;
  if (whole > kMaxUs || whole < -kMaxUs) return std::nullopt;
  std::int64_t fraction_ns = 0;
  if (rest != end) {
    if (*rest == 'e' || *rest == 'E') return from_exponent(text);
    if (*rest != '.') return std::nullopt;
    std::int64_t scale = kNsPerUs / 10;
    for (const char* digit = rest + 1; digit != end; ++digit, scale /= 10) {
      if (*digit == 'e' || *digit == 'E') return from_exponent(text);
      if (!is_digit(*digit)) return std::nullopt;
      fraction_ns += scale * (*digit - '0');
    }
  }
  const bool is_negative = text.front() == '-';
  return whole * kNsPerUs + (is_negative ? -fraction_ns : fraction_ns);
}

std::optional<std::int64_t> integer_from(std::string_view token) {
  if (token.size() > 1 && token.front() == '"') token = token.substr(1, token.size() - 2);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
  return value;
}

std::int32_t small_integer_from(std::string_view token) {
  const auto value = integer_from(token);
  return value && *value >= -1 && *value < (1 << 30) ? static_cast<std::int32_t>(*value) : -1;
}

std::string unescaped(std::string_view content, std::int64_t& invalid_escapes) {
  std::string text;
  text.reserve(content.size());
  for (std::size_t at = 0; at < content.size();) {
    if (content[at] != '\\' || at + 1 == content.size()) {
      text += content[at++];
      continue;
    }
    const char letter = content[at + 1];
    if (const auto simple = simple_escape(letter)) {
      text += *simple;
      at += 2;
      continue;
    }
    const std::size_t taken = letter == 'u' ? append_unicode(text, content.substr(at)) : 0;
    if (taken == 0) {
      ++invalid_escapes;
      text += content[at++];
    }
    at += taken;
  }
  return text;
}

std::string mended(std::string_view event) {
  constexpr std::string_view kBetweenWords = " \t\r\n,:{}[]\"";
  std::string good;
  good.reserve(event.size());
  for (std::size_t at = 0; at < event.size();) {
    if (event[at] == '"') {
      at += mend_string(good, event.substr(at));
      continue;
    }
    if (kBetweenWords.find(event[at]) != std::string_view::npos) {
      good += event[at++];
      continue;
    }
    const std::size_t end = std::min(event.find_first_of(kBetweenWords, at), event.size());
    const std::string_view word = event.substr(at, end - at);
    good += is_json_word(word) ? word : "null";
    at = end;
  }
  return good;
}

}  // namespace autotuned::traces
