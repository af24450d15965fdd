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

TEST(Printable, DeceivesNoReader) {
  // The name of a file that ends in txt.exe, as an override of directions shows it.
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "txt.exe"),
            "a?txt.exe");
  for (const char* steering :
       {"\xE2\x80\xAA", "\xE2\x80\xAB", "\xE2\x80\xAC",    "\xE2\x80\xAD", "\xE2\x80\xAE",
        "\xE2\x81\xA6", "\xE2\x81\xA7", "\xE2\x81\xA8",    "\xE2\x81\xA9", "\xE2\x80\x8E",
        "\xE2\x80\x8F", "\xD8\x9C",     "\xE2\x80\x8B",    "\xE2\x80\x8C", "\xE2\x80\x8D",
        "\xE2\x81\xA0", "\xEF\xBB\xBF", "\xC2\xAD",        "\xE2\x80\xA8", "\xE2\x80\xA9",
        "\xE1\xA0\x8E", "\xEF\xBF\xB9", "\xF3\xA0\x81\x81"}) {
    EXPECT_EQ(printable(std::string("a") + steering + "b"), "a?b");
    EXPECT_EQ(printable_lines(std::string("a") + steering + "\n"), "a?\n");
    // Cut short it is no character.
    const std::string cut = std::string(steering).substr(0, std::string(steering).size() - 1);
    EXPECT_EQ(printable(cut), cut);
  }
}

TEST(Printable, EscapesWhatIsQuoted) {
  EXPECT_EQ(printable_quoted("\"a\xE2\x80\xAE"
                             "b\xF3\xA0\x81\x81\x7F\""),
            "\"a\\u202eb\\U000e0041\\u007f\"");
  EXPECT_EQ(printable_quoted("\"Grüße, 漢字\""), "\"Grüße, 漢字\"");
}

TEST(Printable, LeavesTextAlone) {
  EXPECT_EQ(printable("off → on, 12.3 %"), "off → on, 12.3 %");
  // U+00A0 is the first behind those; the others have bytes of theirs.
  const std::string words =
      "\xC2\xA0 \xE2\x80\x8A \xE2\x80\x90 \xE2\x80\xA7 \xE2\x80\xAF Grüße, Ü, 漢字, 調整, "
      "\xF0\x9F\x9B\x9B";
  EXPECT_EQ(printable(words), words);
  EXPECT_EQ(printable("\x9B\xFF"), "\x9B\xFF");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable_lines("one\ntwo\x1b[2J\r\n"), "one\ntwo?[2J?\n");
}

TEST(ShellWord, IsOneWordForAShell) {
  EXPECT_EQ(shell_word("out/recipe-1.yaml"), "out/recipe-1.yaml");
  EXPECT_EQ(shell_word("my photos/a.yaml"), "'my photos/a.yaml'");
  EXPECT_EQ(shell_word("it's;rm"), "'it'\\''s;rm'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a\x1b[2J's\\"), R"($'a\x1b[2J\'s\\')");
  EXPECT_EQ(shell_word("a\xE2\x80\xAEü"), R"($'a\xe2\x80\xaeü')");
  EXPECT_EQ(shell_word("--help"), "./--help");
  EXPECT_EQ(shell_word("-a b"), "'./-a b'");
}

}  // namespace
}  // namespace autotuned
