// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <cstddef>
#include <utility>

namespace autotuned {

namespace {

bool is_control(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20U || code == 0x7FU;
}

// Whether UTF-8 has one of U+0080 to U+009F here: a terminal takes U+009B for ESC [. The first of their two bytes never
// stands within another character.
bool is_long_control(const std::string& text, std::size_t at) {
  return text[at] == '\xC2' && at + 1 < text.size() &&
         (static_cast<unsigned char>(text[at + 1]) & 0xE0U) == 0x80U;
}

std::string without_controls(std::string text, bool keeps_lines) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    const bool is_long = is_long_control(text, at);
    const bool is_kept = !is_long && (!is_control(byte) || (keeps_lines && byte == '\n'));
    text[end++] = is_kept ? byte : '?';
    if (is_long) ++at;
  }
  text.resize(end);
  return text;
}

}  // namespace

std::string printable(std::string text) {
  return without_controls(std::move(text), /*keeps_lines=*/false);
}

std::string printable_lines(std::string text) {
  return without_controls(std::move(text), /*keeps_lines=*/true);
}

}  // namespace autotuned
