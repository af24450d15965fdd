// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <gtest/gtest.h>

namespace autotuned {
namespace {

TEST(Printable, SteersNoTerminal) {
  EXPECT_EQ(printable(std::string("a\x1b[2J\n\tb\0\x7f", 10)), "a?[2J??b??");
  // As U+009B, which is ESC [ in one character; the first and the last of its kind; cut short.
  EXPECT_EQ(printable("a\xC2\x9B"
                      "2J\xC2\x80\xC2\x9F\xC2"),
            "a?2J??\xC2");
  EXPECT_EQ(printable_lines("\xE2\xC2\x85\n"), "\xE2?\n");
}

TEST(Printable, LeavesTextAlone) {
  EXPECT_EQ(printable("off → on, 12.3 %"), "off → on, 12.3 %");
  // U+00A0 is the first behind those; the others have bytes of theirs.
  const std::string words = "\xC2\xA0 Grüße, Ü, 漢字, 調整, \xF0\x9F\x9B\x9B";
  EXPECT_EQ(printable(words), words);
  EXPECT_EQ(printable("\x9B\xFF"), "\x9B\xFF");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable_lines("one\ntwo\x1b[2J\r\n"), "one\ntwo?[2J?\n");
}

}  // namespace
}  // namespace autotuned
