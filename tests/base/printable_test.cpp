// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <gtest/gtest.h>

namespace autotuned {
namespace {

TEST(Printable, SteersNoTerminal) {
  EXPECT_EQ(printable(std::string("a\x1b[2J\n\tb\0\x7f", 10)), "a?[2J??b??");
}

TEST(Printable, LeavesTextAlone) {
  EXPECT_EQ(printable("off → on, 12.3 %"), "off → on, 12.3 %");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable_lines("one\ntwo\x1b[2J\r\n"), "one\ntwo?[2J?\n");
}

}  // namespace
}  // namespace autotuned
