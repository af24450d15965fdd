// SPDX-License-Identifier: Apache-2.0
// init, and what is said to somebody who types no command: the first steps.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/guide/data_folder.hpp"
#include "daemon/guide/file_advice.hpp"
#include "daemon/guide/next_step.hpp"
#include "daemon/guide/starter_recipe.hpp"
#include "daemon/guide/text_files.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/screen/wrapped_text.hpp"

namespace autotuned::daemon {

namespace {

namespace fs = std::filesystem;

// Writes a new file. An existing file of that name, also a link, stays as it is.
Result<void> write_new_file(const fs::path& file, const std::string& text) {
  const Descriptor made(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!made.is_open() && errno == EEXIST) {
    return fail(ErrorKind::invalid, "is there already, and is not overwritten", file.string(),
                "--output FILE writes another one");
  }
  if (!made.is_open()) {
    return tl::unexpected(system_error(errno, "the recipe cannot be written", file.string()));
  }
  if (write_all(made.get(), text)) return {};
  Error error = system_error(errno, "the recipe cannot be written", file.string());
  ::unlink(file.c_str());
  return tl::unexpected(std::move(error));
}

// The published schema of recipes, if it is installed beside this program.
fs::path schema_here() {
  fs::path file = find_installation_paths().templates.parent_path() / "recipe.schema.json";
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? file : fs::path();
}

// "AMD EPYC 9V74, 2 CPUs, no GPU".
std::string machine_text(const Machine& machine) {
  std::string text = fmt::format("{}, {} CPU{}", machine.cpu_model, machine.cpus_allowed,
                                 machine.cpus_allowed == 1 ? "" : "s");
  if (machine.gpus.empty()) return text + ", no GPU";
  for (const Gpu& gpu : machine.gpus)
    text += ", " + gpu.name;
  return text;
}

// Without starting it, which takes seconds.
std::string trainer_text(const InstallationPaths& paths) {
  if (::access(paths.trainer.c_str(), X_OK) == 0) return "trainer with LibTorch is there";
  return "no trainer at " + paths.trainer.string();
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

int init(const InitOptions& options) {
  const auto here = current_folder();
  if (!here) return report_error(here.error(), kEnvironmentUnusable);
  fs::path folder = (*here / options.folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "photos/"
  if (const std::string text = folder.string(); printable(text) != text || !is_utf8(text)) {
    return report_error({ErrorKind::invalid, "a recipe cannot name a folder with such characters",
                         printable(text), "rename it, or link to it by another name"},
                        kUsageError);
  }
  std::error_code ignored;
  const bool is_text = is_text_file(folder) && fs::is_regular_file(folder, ignored);
  if (!is_text && fs::is_regular_file(folder, ignored)) {
    return report_error(file_where_folder_is_expected(options.folder), kUsageError);
  }
  StarterSpec spec{.name = starter_name((is_text ? folder.stem() : folder.filename()).string())};
  spec.recipe = !options.output.empty() ? options.output
                : folder == *here       ? fs::path("recipe.yaml")
                                        : fs::path(spec.name + ".yaml");
  spec.schema = schema_here();
  spec.has_gpu = !detect_machine().gpus.empty();
  const fs::path from = (*here / spec.recipe).parent_path();
  const Result<DataFolder> data =
      is_text ? Result<DataFolder>(look_at_text(folder, from)) : look_at_data(folder, from);
  if (!data) return report_error(data.error(), kUsageError);
  if (auto written = write_new_file(spec.recipe, starter_recipe(*data, spec)); !written) {
    return report_error(written.error(), exit_code_of(written.error()));
  }
  std::vector<std::string> notes = data->notes;
  if (data->samples == Samples::none) {
    for (const std::string& script : examine_folder(folder).scripts) {
      notes.push_back(script + " is a script with PyTorch: `autotuned run " + shell_word(script) +
                      "` tunes it without a recipe");
    }
  }
  if (options.as_json) {
    std::cout << to_line({{"recipe", spec.recipe.string()},
                          {"found", data->found},
                          {"samples", data->count > 0 ? Json(data->count) : Json()},
                          {"notes", notes}})
              << "\n";
    return kDone;
  }
  const std::string file = spec.recipe.string();
  std::string told = "found    " +
                     printable(data->samples == Samples::none
                                   ? "nothing to train on: the recipe makes its own data"
                                   : data->found) +
                     "\n";
  for (const std::string& note : notes)
    told += "note     " + printable(note) + "\n";
  told += "wrote    " + printable(file) + "\n\n" +
          next_steps_text({{"autotuned check " + shell_word(file), "looks at data and model"},
                           {"autotuned run " + shell_word(file), "tunes, then trains"}});
  print_text(told);
  return kDone;
}

int welcome() {
  const InstallationPaths paths = find_installation_paths();
  const Machine machine = detect_machine();
  const auto here = current_folder();
  const FolderState around =
      here ? examine_folder(*here, sound_recipe_test(machine)) : FolderState{};
  const KnownRuns known = known_runs({});
  const auto known_plugins = static_cast<std::int64_t>(plugin_names_here({}).size());
  std::vector<NextStep> steps = next_steps(around, known.last, known.stopped);
  if (!known.last) steps.push_back({"autotuned doctor", "says what works on this machine"});
  print_text(
      "autotuned measures what makes a training job slow, and trains it with what is "
      "faster.\n\nmachine  " +
      printable(fmt::format("{}; {}; {}", machine_text(machine), trainer_text(paths),
                            format_counted(known_plugins, "plugin"))) +
      "\nhere     " + folder_state_text(around) + "\nhistory  " + printable(known.text) + "\n\n" +
      next_steps_text(steps) +
      "\n`autotuned --help` lists all commands, `autotuned COMMAND --help` their options.\n");
  return kDone;
}

}  // namespace autotuned::daemon
