// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/recipe_reading.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/printable.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "daemon/trainers/data_check.hpp"
#include "plugins/host/trust.hpp"
#include "recipes/recipe_plugins.hpp"

namespace autotuned::daemon {

namespace {

using Reading = tl::expected<recipes::Recipe, std::vector<recipes::Diagnostic>>;

// A recipe decides which files are read and where results are written, with this user's rights, so no other user may be
// able to change it. The opened file itself is examined, so that it cannot be exchanged in between.
Reading read_trusted(const std::filesystem::path& file, const std::vector<recipes::Knob>& knobs,
                     const std::optional<std::vector<std::string>>& plugins,
                     recipes::NamedFiles files = recipes::NamedFiles::must_exist) {
  // O_NONBLOCK: opening a named pipe would wait for a writer.
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  const auto refusal = [&file](std::string message) {
    return tl::unexpected(
        std::vector{recipes::Diagnostic{file.string(), 0, 0, std::move(message)}});
  };
  if (!opened.is_open() || ::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    // In the words of the reader. It was not examined, so if it can be read by now it is refused.
    auto unexamined = recipes::read_recipe(file, knobs);
    if (unexamined) return refusal("the recipe was exchanged while it was read");
    return unexamined;
  }
  const plugins::Viewer viewer = plugins::Viewer::current();
  std::string reason = plugins::distrust(status, viewer, /*is_ancestor=*/false);
  if (reason.empty()) {
    reason = plugins::distrust_acl("/proc/self/fd/" + std::to_string(opened.get()), viewer);
  }
  if (!reason.empty()) {
    return refusal(
        "the recipe " + reason +
        "; read it, then copy it, or change its owner or mode, so that only you and root "
        "can change it");
  }
  const auto text =
      read_file("/proc/self/fd/" + std::to_string(opened.get()), recipes::kMaxYamlBytes);
  if (!text) return refusal(text.error().what);
  auto recipe = recipes::parse_recipe(*text, file, knobs, files);
  std::vector<recipes::Diagnostic> unknown;
  if (plugins) unknown = recipes::unknown_plugins(*text, file, *plugins);
  if (unknown.empty()) return recipe;
  if (!recipe) {
    unknown.insert(unknown.end(), recipe.error().begin(), recipe.error().end());
    std::ranges::stable_sort(unknown, {}, &recipes::Diagnostic::line);
  }
  return tl::unexpected(std::move(unknown));
}

}  // namespace

std::optional<recipes::Recipe> read_recipe_or_report(
    const std::filesystem::path& file, const std::vector<recipes::Knob>& knobs, bool as_json,
    const std::optional<std::vector<std::string>>& plugins, recipes::NamedFiles files) {
  if (file.extension() == ".py") {
    const std::string name = file.string();
    report_problems({{name, 0, 0,
                      "a script of Python, where a recipe is expected; `autotuned run " +
                          shell_word(name) + "` tunes a script as it is, and `autotuned patch " +
                          shell_word(name) + "` prints what was kept"}},
                    as_json);
    return std::nullopt;
  }
  auto recipe = read_trusted(file, knobs, plugins, files);
  if (recipe) return std::move(*recipe);
  report_problems(recipe.error(), as_json);
  return std::nullopt;
}

IsSoundRecipe sound_recipe_test(const Machine& machine) {
  struct Known {
    std::vector<plugins::FoundPlugin> trainer_plugins = trainer_plugins_here({});
    std::vector<recipes::Knob> knobs;
    std::vector<std::string> plugins = plugin_names_here({});
  };
  return [machine, known = std::optional<Known>()](const std::filesystem::path& file) mutable {
    if (!known) {
      known.emplace();
      known->knobs = knobs_with(recipes::knobs_of(machine), known->trainer_plugins);
    }
    const auto recipe = read_trusted(file, known->knobs, known->plugins);
    return recipe && workload_problems(*recipe, known->trainer_plugins).empty() &&
           output_problems(*recipe, file).empty() && rank_problems(*recipe, file).empty();
  };
}

bool report_problems(const std::vector<recipes::Diagnostic>& problems, bool as_json) {
  if (problems.empty()) return false;
  Json list = Json::array();
  for (const recipes::Diagnostic& diagnostic : problems) {
    if (as_json) {
      list.push_back({{"file", diagnostic.file},
                      {"line", diagnostic.line},
                      {"column", diagnostic.column},
                      {"message", diagnostic.message}});
    } else {
      print_message(printable(diagnostic.text()) + "\n");
    }
  }
  if (as_json) std::cout << to_line({{"ok", false}, {"diagnostics", list}}) << "\n";
  return true;
}

}  // namespace autotuned::daemon
