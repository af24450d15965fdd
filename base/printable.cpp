// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <algorithm>

namespace autotuned {

std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char byte) { return byte < 0x20U || byte == 0x7FU; }, '?');
  return text;
}

}  // namespace autotuned
