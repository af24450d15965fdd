// SPDX-License-Identifier: Apache-2.0
// What people read who make a mistake, in golden/mistakes.txt: blocks with a comment, lines for the shell that set the scene
// (`% `), a command (`$ `), what it prints, and its exit code in brackets. Every block begins in a folder with
// recipe.yaml alone, which is right; HERE is that folder.
//
// After a wanted change: AUTOTUNED_WRITE_GOLDEN=1 build/release/tests/mistakes_test, then read the difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/golden.hpp"
#include "tests/integration/scene.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

struct Mistake {
  std::string given;    // comment, setting and command, with ends of lines
  std::string setting;  // for the shell
  std::string command;
  std::string told;  // with the exit code
};

std::filesystem::path golden_file() {
  return tests::source_folder() / "tests/daemon/cli/golden/mistakes.txt";
}

std::vector<Mistake> read_mistakes() {
  std::ifstream input(golden_file());
  std::vector<Mistake> mistakes;
  std::string before;
  for (std::string line; std::getline(input, line); before = line) {
    if (line.starts_with("# ") && before.empty()) {
      // The empty line between two blocks is of neither.
      if (!mistakes.empty() && mistakes.back().told.ends_with('\n'))
        mistakes.back().told.pop_back();
      mistakes.emplace_back();
    }
    Mistake& last = mistakes.back();
    if (last.command.empty()) {
      last.given += line + "\n";
      if (line.starts_with("% ")) last.setting += line.substr(2) + "\n";
      if (line.starts_with("$ ")) last.command = line.substr(2);
    } else {
      last.told += line + "\n";
    }
  }
  return mistakes;
}

// As a shell in the folder of a scene does it.
std::string told_by_program(const Mistake& mistake) {
  const Scene scene;
  const std::string here = scene.folder().path().string();
  const std::vector<std::string> environment = {
      "PATH=" + (tests::build_folder() / "bin").string() + ":/usr/bin:/bin",
      "LANG=C.UTF-8",
      "HOME=" + here,
      "TMPDIR=" + here + "/tmp",
      "XDG_RUNTIME_DIR=" + here + "/run",
      "XDG_DATA_HOME=" + here + "/data",
      "AUTOTUNED_LOCKS=" + here + "/run",
      "AUTOTUNED_HISTORY=" + here + "/history.db",
      "AUTOTUNED_TRAINER=" + scene.fake().trainer().string()};
  const auto shell = [&](const std::string& lines) {
    return Running({"/bin/sh", "-c", "cd \"$0\" && exec 2>&1\n" + lines, here}, environment)
        .finish();
  };
  if (!mistake.setting.empty()) {
    const Outcome set = shell("set -e\n" + mistake.setting);
    EXPECT_EQ(set.code, 0) << mistake.setting << set.out;
  }
  const Outcome outcome = shell(mistake.command);
  std::string text = tests::with_here(outcome.out, here);
  if (!text.empty() && !text.ends_with('\n')) text += "\n";
  return text + "[" + std::to_string(outcome.code) + "]\n";
}

TEST(Mistakes, AreToldAsTheGoldenFileSays) {
  std::vector<Mistake> mistakes = read_mistakes();
  EXPECT_GE(mistakes.size(), 50U);
  std::string text;
  for (const Mistake& mistake : mistakes) {
    const std::string told = told_by_program(mistake);
    EXPECT_EQ(told, mistake.told) << mistake.given;
    text += (text.empty() ? "" : "\n") + mistake.given + told;
  }
  if (std::getenv("AUTOTUNED_WRITE_GOLDEN") != nullptr) std::ofstream(golden_file()) << text;
}

// A mistake must never pass for success, crash the program, or be told on more lines than one reads.
TEST(Mistakes, AreRefusedInAFewLines) {
  for (const Mistake& mistake : read_mistakes()) {
    const std::size_t code_at = mistake.told.rfind("\n[");
    ASSERT_NE(code_at, std::string::npos) << mistake.given << "it is told with no word";
    const int code = std::atoi(mistake.told.c_str() + code_at + 2);
    EXPECT_TRUE(code == 1 || code == 2 || code == 4) << mistake.given << code;
    EXPECT_LE(std::count(mistake.told.begin(), mistake.told.end(), '\n'), 7) << mistake.given;
  }
}

}  // namespace
}  // namespace autotuned
