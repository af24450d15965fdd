// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/options/commands.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/cli/options/command_texts.hpp"
#include "daemon/cli/options/option_groups.hpp"
#include "daemon/cli/options/subcommand.hpp"

namespace autotuned::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// Those of the command line below `app` for which the table has no function, as they are typed.
std::vector<std::string> without_function(const CLI::App& app, const Subcommands& commands,
                                          const std::string& words) {
  std::vector<std::string> missing;
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = words + " " + below->get_name();
    const auto found = std::ranges::find(commands, below, &Subcommand::command);
    if (found == commands.end() || !found->run) missing.push_back(name);
    for (std::string& deeper : without_function(*below, commands, name))
      missing.push_back(std::move(deeper));
  }
  return missing;
}

TEST(Commands, EachHasItsFunction) {
  CLI::App app;
  AllOptions options;
  const Subcommands commands = add_commands(app, options);
  EXPECT_THAT(commands, Not(IsEmpty()));
  EXPECT_THAT(without_function(app, commands, "autotuned"), IsEmpty());
}

// So that the test above can fail.
TEST(Commands, OneWithoutFunctionIsFound) {
  CLI::App app;
  AllOptions options;
  const Subcommands commands = add_commands(app, options);
  app.get_subcommand("history")->add_subcommand("forgotten", "");
  EXPECT_THAT(without_function(app, commands, "autotuned"),
              ElementsAre("autotuned history forgotten"));
}

// The name with what it excludes may reach to one blank before the description.
TEST(HelpText, GoesOnBelowTheStartOfADescription) {
  const std::string blanks(30, ' ');
  const std::string description = "Search again, even if a best configuration is stored";
  EXPECT_EQ(in_80_columns("  --retune Excludes: --extend " + description + "\n"),
            "  --retune Excludes: --extend Search again, even if a best configuration is\n" +
                blanks + "stored\n");
  EXPECT_EQ(in_80_columns("  --retune" + std::string(20, ' ') + description),
            "  --retune" + std::string(20, ' ') +
                "Search again, even if a best configuration is\n" + blanks + "stored\n");
}

}  // namespace
}  // namespace autotuned::daemon
