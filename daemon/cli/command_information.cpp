// SPDX-License-Identifier: Apache-2.0
// check, schema, knobs: what a recipe and a machine offer.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "daemon/session/output_folder.hpp"
#include "daemon/trainers/data_check.hpp"
#include "recipes/key_place.hpp"
#include "recipes/schema.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

std::string domain_text(const recipes::Knob& knob) {
  switch (knob.type) {
    case recipes::KnobType::boolean:
      return "on, off";
    case recipes::KnobType::integer:
      return fmt::format("{} to {}", format_count(knob.minimum), format_count(knob.maximum));
    case recipes::KnobType::choice:
      return fmt::format("{}", fmt::join(knob.choices, ", "));
    case recipes::KnobType::list:
      return fmt::format("{}, or a list", fmt::join(knob.choices, ", "));
    case recipes::KnobType::text:
      return "text";
  }
  return "";
}

// The problems of the folder for results.
std::vector<recipes::Diagnostic> problems_of_output(const recipes::Recipe& recipe,
                                                    const std::filesystem::path& file) {
  auto problems = output_problems(recipe, file);
  if (!problems.empty()) return problems;
  auto checked = check_output_folder(recipe.output_dir);
  if (checked) checked = check_place_of_best(recipe.output_dir, file);
  const std::string text = read_file(file, recipes::kMaxYamlBytes).value_or(std::string());
  if (checked) {
    const auto inputs = check_input_files(recipe, storage::History::default_path(), true);
    if (inputs) return {};
    return {recipes::diagnostic_at(text, file.string(), inputs.error().where,
                                   inputs.error().message())};
  }
  return {recipes::diagnostic_at(text, file.string(), "output.dir",
                                 "output.dir: " + checked.error().message())};
}

}  // namespace

int check(const std::filesystem::path& file,
          const std::vector<std::filesystem::path>& plugin_folders, bool as_json) {
  if (auto checked = check_plugin_folders(plugin_folders); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  const auto trainer_plugins = trainer_plugins_here(plugin_folders);
  const auto knobs = knobs_with(recipes::knobs_of(detect_machine()), trainer_plugins);
  const auto recipe =
      read_recipe_or_report(file, knobs, as_json, plugin_names_here(plugin_folders));
  if (!recipe) return kUsageError;
  auto problems = workload_problems(*recipe, trainer_plugins);
  for (auto& problem : problems_of_output(*recipe, file))
    problems.push_back(std::move(problem));
  for (auto& problem : rank_problems(*recipe, file))
    problems.push_back(std::move(problem));
  DataCheck looked;
  // Without its plugins there is nothing to look at.
  if (workload_problems(*recipe, trainer_plugins).empty())
    looked = check_data_and_model(*recipe, file, knobs, trainer_plugins);
  add_shortages(*recipe, file, looked);
  for (auto& problem : looked.problems)
    problems.push_back(std::move(problem));
  // A note may name the reason of a mistake.
  if (!as_json) {
    for (const std::string& note : looked.notes)
      print_message("warning: " + printable_lines(note) + "\n");
  }
  if (report_problems(problems, as_json)) return kUsageError;
  if (as_json) {
    std::cout << to_line({{"ok", true},
                          {"hash", recipe->hash()},
                          {"recipe", recipe->to_json()},
                          {"notes", looked.notes}})
              << "\n";
  } else {
    std::cout << printable(file.string()) << ": ok\n";
  }
  return kDone;
}

int print_schema(bool as_json) {
  if (as_json) {
    std::cout << recipes::schema_json().dump(2) << "\n";
  } else {
    std::cout << recipes::schema_text();
  }
  return kDone;
}

int print_knobs(const std::vector<std::filesystem::path>& plugin_folders, bool as_json) {
  if (auto checked = check_plugin_folders(plugin_folders); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  const auto knobs =
      knobs_with(recipes::knobs_of(detect_machine()), trainer_plugins_here(plugin_folders));
  if (as_json) {
    Json list = Json::array();
    for (const recipes::Knob& knob : knobs)
      list.push_back(knob.to_json());
    std::cout << to_line(list) << "\n";
    return kDone;
  }
  std::vector<std::vector<std::string>> rows = {
      {"knob", "values here", "default", "unit", "switch", "risk", "meaning"}};
  for (const recipes::Knob& knob : knobs) {
    const std::string unit = knob.unit.empty() ? "-" : knob.unit;
    std::string meaning = knob.summary;
    if (!knob.unavailable.empty()) meaning += " Not here: " + knob.unavailable + ".";
    for (const auto& [choice, reason] : knob.unavailable_choices)
      meaning += " Not here: " + choice + " " + reason + ".";
    rows.push_back({knob.name, domain_text(knob), to_text(knob.default_value), unit,
                    std::string(recipes::to_string(knob.how)),
                    std::string(recipes::to_string(knob.risk)), meaning});
  }
  print_text(table_text(rows));
  return kDone;
}

}  // namespace autotuned::daemon
