// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/characters.hpp"

#include <utf8proc.h>

#include <cstddef>

namespace autotuned::daemon {

namespace {

constexpr utf8proc_int32_t kReplacement = 0xFFFD;

struct CodePoint {
  utf8proc_int32_t value = kReplacement;
  std::size_t bytes = 1;
  bool is_valid = false;
};

// The first of `text`, which is not empty.
CodePoint first_of(std::string_view text) {
  CodePoint point;
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const utf8proc_ssize_t size =
      utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size()), &point.value);
  if (size <= 0) return {};
  point.bytes = static_cast<std::size_t>(size);
  point.is_valid = true;
  return point;
}

int width_of(const CodePoint& point) {
  return point.is_valid ? utf8proc_charwidth(point.value) : 1;
}

}  // namespace

int columns_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    columns += width_of(point);
    text.remove_prefix(point.bytes);
  }
  return columns;
}

std::string_view beginning_of(std::string_view text, int columns) {
  std::size_t border = 0;  // before the character at `at`
  int used = 0;
  utf8proc_int32_t state = 0;
  CodePoint before;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_of(text.substr(at));
    if (at > 0 && utf8proc_grapheme_break_stateful(before.value, point.value, &state)) border = at;
    used += width_of(point);
    if (used > columns) return text.substr(0, border);
    before = point;
    at += point.bytes;
  }
  return text;
}

std::string valid_text(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    valid += point.is_valid ? text.substr(0, point.bytes) : std::string_view("\xEF\xBF\xBD");
    text.remove_prefix(point.bytes);
  }
  return valid;
}

}  // namespace autotuned::daemon
