// SPDX-License-Identifier: Apache-2.0
// Completions and the manual page of a small table of commands.
#include <gtest/gtest.h>

#include <cstdlib>

#include "daemon/guide/completions.hpp"
#include "daemon/guide/man_page.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

Command program() {
  const CommandOption file{.value = "RECIPE", .summary = "Recipe file", .is_required = true};
  Command run{.name = "run", .summary = "Tune; it's done [soon]: wait"};
  run.options = {file,
                 {.names = {"-s", "--set"}, .value = "KNOB=VALUE", .summary = "Start from this"},
                 {.names = {"--history"}, .value = "FILE", .summary = "History", .is_file = true},
                 {.names = {"--color"},
                  .value = "WHEN",
                  .summary = ".dots and 'quotes'",
                  .choices = {"auto", "never"}}};
  run.options[0].is_file = true;
  run.forms = {"RECIPE", "SCRIPT.py ARGS...", "-- COMMAND..."};
  Command history{.name = "history", .summary = "List runs"};
  history.options.push_back({.names = {"--json"}, .summary = "Print JSON"});
  Command prune{.name = "prune", .summary = "Remove"};
  prune.options.push_back({.names = {"--dry-run"}, .summary = "Only say what"});
  history.commands.push_back(prune);
  Command show{.name = "show", .summary = "Show a run"};
  show.options.push_back({.value = "ID", .summary = "A run", .is_required = true, .is_run = true});
  return {.name = "tool", .summary = "A tool", .commands = {run, history, show}};
}

// What bash offers behind these words.
std::string offered(const std::string& words) {
  const TemporaryFolder folder;
  folder.write("completions", bash_completions(program()));
  folder.write("photo.yaml", "");
  folder.write("ask", "cd " + folder.path().string() +
                          "\n. ./completions\ntool() { printf 'run  recipe\nr-1  a\nr-2  r-7\nr-2: "
                          "a note\n'; }\nCOMP_WORDS=(" +
                          words +
                          ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tool\n"
                          "printf '%s\\n' \"${COMPREPLY[@]}\" | sort -u > answer\n");
  const std::string command = "bash --norc " + (folder / "ask").string();
  EXPECT_EQ(std::system(command.c_str()), 0) << words;
  return folder.read("answer");
}

TEST(BashCompletions, KnowCommandsOptionsAndValues) {
  EXPECT_EQ(offered("tool ''"), "history\nrun\nshow\n");
  EXPECT_EQ(offered("tool ru"), "run\n");
  EXPECT_EQ(offered("tool run --"), "--color\n--history\n--set\n");
  EXPECT_EQ(offered("tool run --color ''"), "auto\nnever\n");
  EXPECT_EQ(offered("tool run --set ''"), "\n") << "nobody can guess it";
  EXPECT_EQ(offered("tool run pho"), "photo.yaml\n");
  EXPECT_EQ(offered("tool run --history pho"), "photo.yaml\n");
  EXPECT_EQ(offered("tool history p"), "prune\n");
  EXPECT_EQ(offered("tool history prune -"), "--dry-run\n");
  EXPECT_EQ(offered("tool show ''"), "last\nr-1\nr-2\n");
}

TEST(ZshCompletions, QuoteWhatSummariesHold) {
  tests::expect_golden("daemon/guide/golden/completions.zsh", zsh_completions(program()));
}

TEST(FishCompletions, ArePerCommand) {
  tests::expect_golden("daemon/guide/golden/completions.fish", fish_completions(program()));
}

TEST(ManPage, HoldsEveryCommandAndNoRequestOfASummary) {
  tests::expect_golden("daemon/guide/golden/man_page.1",
                       man_page(program(), {.version = "1.2",
                                            .date = "2026-11-23",
                                            .description = "It tunes.\n\nIt trains.",
                                            .exit_codes = "0 done."}));
}

}  // namespace
}  // namespace autotuned::daemon
