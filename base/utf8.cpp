// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.hpp"

#include <algorithm>

namespace autotuned {

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and numbers beyond Unicode can be recognised by the second byte.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

std::string short_for_message(std::string_view text) {
  constexpr std::size_t kMaxShown = 60;
  std::string result;
  std::size_t shown = 0;
  while (!text.empty() && shown < kMaxShown) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text));
    const auto byte = static_cast<unsigned char>(text.front());
    if (byte < 0x20 || byte == 0x7F || utf8_length(text) == 0) {
      result += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : "?";
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length);
    ++shown;
  }
  return result + (text.empty() ? "" : "…");
}

std::string quote_for_message(std::string_view text) {
  return '"' + short_for_message(text) + '"';
}

}  // namespace autotuned
