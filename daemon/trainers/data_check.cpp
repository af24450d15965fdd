// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/data_check.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "base/file.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/output_space.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/trainers/trainer_client.hpp"
#include "daemon/trainers/trainer_environment.hpp"
#include "recipes/key_place.hpp"
#include "tuner/session.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::chrono::seconds kLimit{30};
constexpr const char* kNoLog = "/dev/null";

// The trainer's answer to `check`, and how long it took to start.
Result<Json> ask_trainer(const recipes::Recipe& recipe, const std::vector<recipes::Knob>& knobs,
                         const std::vector<plugins::FoundPlugin>& trainer_plugins,
                         std::chrono::nanoseconds& start_time) {
  const Configuration configuration = recipe.starting_configuration(knobs);
  auto libraries = libraries_for(recipe, trainer_plugins);
  if (!libraries) return tl::unexpected(libraries.error());
  auto environment = trainer_environment(configuration);
  if (!environment) return tl::unexpected(environment.error());
  TrainerSpec spec;
  spec.program = find_installation_paths().trainer;
  spec.environment = std::move(*environment);
  spec.log = kNoLog;
  NeverCancelled cancel;
  const auto begin = std::chrono::steady_clock::now();
  auto trainer = TrainerClient::start(spec, cancel);
  if (!trainer) return tl::unexpected(trainer.error());
  start_time = std::chrono::steady_clock::now() - begin;
  auto answer = trainer->request("check",
                                 {{"recipe", recipe.to_json()},
                                  {"configuration", configuration.to_json()},
                                  {"plugins", *std::move(libraries)}},
                                 kLimit);
  trainer->stop();
  return answer;
}

std::string text_of(const Json& problem) {
  const auto part = [&problem](const char* field) {
    return get_string(problem, field).value_or("");
  };
  return Error{ErrorKind::invalid, part("what"), part("where"), part("remedy")}.message();
}

}  // namespace

std::string unlooked_text(const Error& error, bool has_started) {
  const std::string text = "data and model were not looked at: ";
  if (has_started && error.kind == ErrorKind::timeout) {
    return text + "they took longer than " + std::to_string(kLimit.count()) + " s to open";
  }
  Error told = error;
  if (told.where == kNoLog) told.where.clear();
  return text + told.message();
}

DataCheck check_data_and_model(const recipes::Recipe& recipe, const std::filesystem::path& file,
                               const std::vector<recipes::Knob>& knobs,
                               const std::vector<plugins::FoundPlugin>& trainer_plugins) {
  DataCheck check;
  const auto answer = ask_trainer(recipe, knobs, trainer_plugins, check.start_time);
  if (!answer) {
    check.notes.push_back(unlooked_text(answer.error(), check.start_time.count() > 0));
    return check;
  }
  // The text gives only the line numbers: what was checked is the recipe as it was read before.
  const std::string text = read_file(file, recipes::kMaxYamlBytes).value_or(std::string());
  for (const Json& problem : member(*answer, "problems")) {
    check.problems.push_back(recipes::diagnostic_at(
        text, file.string(), get_string(problem, "key").value_or(""), text_of(problem)));
  }
  for (const Json& note : member(*answer, "notes"))
    if (note.is_string()) check.notes.push_back(note.get<std::string>());
  check.parameter_bytes = get_integer(*answer, "parameter_bytes").value_or(0);
  return check;
}

void add_shortages(const recipes::Recipe& recipe, const std::filesystem::path& file,
                   DataCheck& check) {
  if (const auto room = output_space(recipe, check.parameter_bytes)) {
    const std::string told =
        "output.dir: " + recipe.output_dir.string() + ": " + room->text + "; " + kSpaceRemedy;
    if (room->is_certain) {
      const std::string text = read_file(file, recipes::kMaxYamlBytes).value_or(std::string());
      check.problems.push_back(recipes::diagnostic_at(text, file.string(), "output.dir", told));
    } else {
      check.notes.push_back(told);
    }
  }
  const std::string budget =
      tuner::budget_warning(recipe.tune.budget, /*is_script=*/false, check.start_time);
  if (!budget.empty()) check.notes.push_back(budget);
}

Error as_recipe_problem(const Error& error, const recipes::Recipe& recipe,
                        const std::vector<recipes::Knob>& knobs,
                        const std::vector<plugins::FoundPlugin>& trainer_plugins,
                        const std::function<void(const std::string&)>& tell_other) {
  switch (error.kind) {
    case ErrorKind::cancelled:
    case ErrorKind::crashed:
    case ErrorKind::timeout:
    case ErrorKind::out_of_memory:
      return error;
    default:
      break;
  }
  const DataCheck check = check_data_and_model(recipe, recipe.file, knobs, trainer_plugins);
  if (check.problems.empty()) return error;
  for (std::size_t i = 1; i < check.problems.size(); ++i)
    tell_other(check.problems[i].text());
  return {error.kind, check.problems.front().text(), {}, {}};
}

// The nearest folder that is there decides.
std::string output_refusal(const std::filesystem::path& folder) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::ranges::any_of(folder.native(), is_control)) {
    return "its name holds a line break or another control character";
  }
  std::filesystem::path there = folder;
  std::error_code ignored;
  while (!std::filesystem::exists(there, ignored) && there.has_relative_path())
    there = there.parent_path();
  const std::string shown = there.string();
  if (!std::filesystem::is_directory(there, ignored)) return shown + " is no folder";
  // Checks access as the effective user. Even root cannot write on a read-only file system.
  if (::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return errno == EROFS ? shown + " is on a file system that cannot be written"
                          : "this user may not write into the folder " + shown;
  }
  return {};
}

std::vector<recipes::Diagnostic> rank_problems(const recipes::Recipe& recipe,
                                               const std::filesystem::path& file) {
  const auto refused = recipes::refuse_ranks(recipe);
  if (refused) return {};
  const std::string text = read_file(file, recipes::kMaxYamlBytes).value_or(std::string());
  return {recipes::diagnostic_at(
      text, file.string(), "train.ranks",
      "train.ranks: " + refused.error().what + "; " + refused.error().remedy)};
}

std::vector<recipes::Diagnostic> output_problems(const recipes::Recipe& recipe,
                                                 const std::filesystem::path& file) {
  const std::string reason = output_refusal(recipe.output_dir);
  if (reason.empty()) return {};
  const std::string text = read_file(file, recipes::kMaxYamlBytes).value_or(std::string());
  return {recipes::diagnostic_at(text, file.string(), "output.dir",
                                 "output.dir: results cannot be written to " +
                                     recipe.output_dir.string() + ": " + reason +
                                     "; name another folder, or change its mode")};
}

}  // namespace autotuned::daemon
