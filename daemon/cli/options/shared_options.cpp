// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/options/shared_options.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "recipes/recipe.hpp"

namespace autotuned::daemon {

CLI::Validator not_empty() {
  return {[](const std::string& value) {
            return value.empty() ? std::string("the path is empty") : std::string();
          },
          ""};
}

CLI::Validator decimal() {
  CLI::Validator validator;
  validator.operation([](std::string& value) {
    // CLI11 takes 010 for eight, and 0x10 for sixteen.
    const std::size_t first = value.starts_with('-') ? 1 : 0;
    const std::string digits = value.substr(first);
    if (digits.size() < 2 || digits.front() != '0' || digits[1] == '.') return std::string();
    if (digits.find_first_not_of("0123456789") != std::string::npos) {
      return "expected a whole number, found '" + value + "'";
    }
    value.erase(first, std::min(digits.find_first_not_of('0'), digits.size() - 1));
    return std::string();
  });
  return validator;
}

void add_json(CLI::App& command, bool& as_json) {
  command.add_flag("--json", as_json, "Print JSON on standard output");
}

void add_history(CLI::App& command, std::filesystem::path& history) {
  command
      .add_option("--history", history,
                  "History file (default: $AUTOTUNED_HISTORY, else below $XDG_STATE_HOME)")
      ->check(not_empty())
      ->type_name("FILE");
}

void add_plugin_folders(CLI::App& command, std::vector<std::filesystem::path>& folders) {
  command.add_option("--plugin-dir", folders, "Look for plugins here first")
      ->check(not_empty())
      ->type_name("DIR");
}

void add_ranks(CLI::App& command, std::optional<int>& ranks) {
  command
      .add_option("--ranks", ranks,
                  "Processes that train together, instead of the recipe's train.ranks")
      ->transform(decimal())
      ->check(CLI::Range(1, recipes::kMaxRanks))
      ->type_name("N");
}

void add_recipe(CLI::App& command, std::filesystem::path& recipe) {
  command.add_option("RECIPE", recipe, "Recipe file")->required()->type_name("FILE");
}

void add_screen(CLI::App& command, ScreenOptions& options) {
  static const std::map<std::string, ColorChoice> kChoices = {{"auto", ColorChoice::automatic},
                                                              {"always", ColorChoice::always},
                                                              {"never", ColorChoice::never}};
  command
      .add_option("--color", options.color,
                  "Colours: auto (on a terminal, unless NO_COLOR is set), always or never")
      ->transform(CLI::CheckedTransformer(kChoices).description(""))
      ->type_name("WHEN");
  command.add_flag("--verbose", options.is_verbose,
                   "Show every plugin with nothing to try, every reason and every upper bound");
}

}  // namespace autotuned::daemon
