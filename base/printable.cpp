// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <algorithm>

namespace autotuned {

namespace {

bool is_control(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20U || code == 0x7FU;
}

}  // namespace

std::string printable(std::string text) {
  std::ranges::replace_if(text, is_control, '?');
  return text;
}

std::string printable_lines(std::string text) {
  std::ranges::replace_if(
      text, [](char byte) { return is_control(byte) && byte != '\n'; }, '?');
  return text;
}

}  // namespace autotuned
