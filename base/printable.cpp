// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace autotuned {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Ranges in ascending order. A terminal obeys these characters instead of showing them, or they change how others are shown.
constexpr std::array<Range, 11> kSteering = {{
    {0x0000, 0x001F},    // control characters
    {0x007F, 0x009F},    // DELETE and the C1 controls, of which U+009B means ESC [
    {0x00AD, 0x00AD},    // soft hyphen
    {0x061C, 0x061C},    // Arabic letter mark
    {0x180E, 0x180E},    // Mongolian vowel separator
    {0x200B, 0x200F},    // zero-width space, joiners, marks of direction
    {0x2028, 0x202E},    // separators of lines and paragraphs, embedding and override of directions
    {0x2060, 0x206F},    // invisible operators, isolates of directions
    {0xFEFF, 0xFEFF},    // zero-width no-break space
    {0xFFF9, 0xFFFB},    // annotations
    {0xE0000, 0xE007F},  // tags
}};

bool steers(char32_t code) {
  return std::ranges::any_of(
      kSteering, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

struct Character {
  char32_t code = 0xFFFD;
  std::size_t bytes = 1;
};

// The length of the UTF-8 character. An invalid byte counts as one harmless character.
Character character_at(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80U) return {.code = lead, .bytes = 1};
  const std::size_t bytes = lead >= 0xF0U ? 4 : lead >= 0xE0U ? 3 : 2;
  if (lead < 0xC2U || lead > 0xF4U || text.size() - at < bytes) return {};
  char32_t code = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  return {.code = code, .bytes = bytes};
}

std::string without_steering(std::string text, bool keeps_lines) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!steers(character.code) || (keeps_lines && character.code == U'\n')) {
      for (std::size_t i = 0; i < character.bytes; ++i)
        text[end++] = text[at + i];
    } else {
      text[end++] = '?';
    }
    at += character.bytes;
  }
  text.resize(end);
  return text;
}

// Quotes a name as $'…', which bash, zsh and other shells read as the same name. Characters that printable() replaces become
// escapes.
std::string escaped_word(const std::string& name) {
  std::string word = "$'";
  for (std::size_t at = 0; at < name.size();) {
    const Character character = character_at(name, at);
    for (std::size_t end = at + character.bytes; at < end; ++at) {
      if (steers(character.code)) {
        word += fmt::format("\\x{:02x}", static_cast<unsigned char>(name[at]));
      } else {
        if (name[at] == '\'' || name[at] == '\\') word += '\\';
        word += name[at];
      }
    }
  }
  return word + "'";
}

}  // namespace

std::string printable(std::string text) {
  return without_steering(std::move(text), /*keeps_lines=*/false);
}

std::string printable_lines(std::string text) {
  return without_steering(std::move(text), /*keeps_lines=*/true);
}

std::string printable_quoted(const std::string& quoted) {
  std::string text;
  for (std::size_t at = 0; at < quoted.size();) {
    const Character character = character_at(quoted, at);
    if (steers(character.code)) {
      const auto code = static_cast<std::uint32_t>(character.code);
      text += code > 0xFFFFU ? fmt::format("\\U{:08x}", code) : fmt::format("\\u{:04x}", code);
    } else {
      text.append(quoted, at, character.bytes);
    }
    at += character.bytes;
  }
  return text;
}

std::string shell_word(const std::string& given) {
  // A name that begins with "-" would be taken for an option.
  const std::string name = given.starts_with('-') ? "./" + given : given;
  const bool is_plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
  });
  if (is_plain && !name.empty()) return name;
  if (printable(name) != name) return escaped_word(name);
  std::string word = "'";
  for (const char c : name)
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace autotuned
