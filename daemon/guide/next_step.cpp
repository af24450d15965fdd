// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/next_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/guide/data_folder.hpp"
#include "daemon/guide/folder_listing.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/run_files.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_end.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::size_t kHeadBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxHeads = 100;  // files that are opened

bool has_line_beginning(std::string_view text, std::string_view begin) {
  if (text.starts_with(begin)) return true;
  return text.find("\n" + std::string(begin)) != std::string_view::npos;
}

bool is_recipe(const std::filesystem::path& file) {
  return has_line_beginning(first_bytes_of(file, kHeadBytes), "autotuned:");
}

// Whether a file trains: it has calls that files with only a model, a plot or a data set lack. Comments do not count.
bool is_training_script(const std::filesystem::path& file) {
  std::istringstream lines(first_bytes_of(file, kHeadBytes));
  bool has_torch = false;
  bool trains = false;
  // Trainer is Hugging Face's class; its train() counts only with it, because modules have a train(), too.
  bool has_trainer = false;
  bool runs_trainer = false;
  bool has_transformers = false;
  for (std::string line; std::getline(lines, line);) {
    const std::string_view code = std::string_view(line).substr(0, line.find('#'));
    has_torch = has_torch || code.starts_with("import torch") || code.starts_with("from torch");
    trains = trains || code.find(".backward(") != std::string_view::npos ||
             code.find(".fit(") != std::string_view::npos;
    const bool is_class = code.starts_with("class ");
    has_trainer = has_trainer || (!is_class && code.find("Trainer(") != std::string_view::npos);
    runs_trainer = runs_trainer || code.find(".train(") != std::string_view::npos;
    has_transformers = has_transformers || code.starts_with("from transformers") ||
                       code.starts_with("import transformers");
  }
  return (has_torch && trains) || ((has_torch || has_transformers) && has_trainer && runs_trainer);
}

// `recipe.yaml` is what `init` writes.
std::string first_choice(const std::vector<std::string>& recipes) {
  const auto usual = std::ranges::find(recipes, "recipe.yaml");
  return usual != recipes.end() ? *usual : recipes.front();
}

bool is_stopped(const storage::RunRow& run) {
  return run.is_interrupted || run.state == storage::RunState::cancelled;
}

std::filesystem::path recipe_file_of(const storage::RunRow& run) {
  return get_string(run.recipe, "file").value_or("");
}

bool is_below(const std::filesystem::path& file, const std::filesystem::path& folder) {
  if (file.empty() || folder.empty()) return false;
  const std::filesystem::path inside = file.lexically_relative(folder);
  return !inside.empty() && *inside.begin() != "..";
}

// The recipe here that the run was of, if its file was written after the run had begun; else empty. The file's time and
// not the hash of the job decides: a hash leaves out the length of the training, and includes options of the command.
std::string recipe_changed_since(const FolderState& here, const storage::RunRow& run) {
  const std::filesystem::path file = recipe_file_of(run);
  const std::string name = file.filename().string();
  const auto written = here.written_unix_ns.find(name);
  const bool is_here = written != here.written_unix_ns.end() && file == here.folder / name;
  return is_here && written->second > run.started_unix_ns ? name : std::string();
}

// Those of `runs` (the newest first) that KnownRuns::stopped tells.
std::vector<storage::RunRow> stopped_of(const std::vector<storage::RunRow>& runs) {
  std::vector<storage::RunRow> stopped;
  std::set<std::string> finished;  // output folders, or jobs that have none
  for (const storage::RunRow& run : runs) {
    if (is_script(run.recipe)) continue;
    const std::string& place = run.output_dir.empty() ? run.recipe_hash : run.output_dir;
    if (has_trained(run)) finished.insert(place);
    if (is_stopped(run) && !finished.contains(place)) stopped.push_back(run);
  }
  return stopped;
}

// The command that goes on with a stopped run, without options that it may have had; empty if its recipe is not known.
std::string command_of(const FolderState& here, const storage::RunRow& run) {
  const std::filesystem::path file = recipe_file_of(run);
  if (file.empty()) return {};
  const bool is_here = !here.folder.empty() && file.parent_path() == here.folder;
  return "autotuned run " + shell_word(is_here ? file.filename().string() : file.string()) +
         (run.is_tune_only ? " --tune-only" : "");
}

std::string shortened(const std::vector<std::string>& names) {
  return printable(format_names(names, 3));
}

std::optional<std::int64_t> write_time_unix_ns(const std::filesystem::path& file) {
  std::error_code failed;
  const auto written = std::filesystem::last_write_time(file, failed);
  if (failed) return std::nullopt;
  const auto since_1970 = std::chrono::file_clock::to_sys(written).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

}  // namespace

FolderState examine_folder(const std::filesystem::path& folder, const IsSoundRecipe& is_sound) {
  constexpr std::int64_t kMaxNames = 5'000;
  FolderState here;
  std::error_code ignored;
  here.folder = std::filesystem::absolute(folder, ignored).lexically_normal();
  std::int64_t names_left = kMaxNames;
  std::size_t opened = 0;
  for (const std::string& name : list_folder(folder, names_left).files) {
    const std::string ending = lower_ending(name);
    const bool may_be_recipe = ending == ".yaml" || ending == ".yml";
    if ((!may_be_recipe && ending != ".py") || ++opened > kMaxHeads) continue;
    if (may_be_recipe && is_recipe(folder / name)) {
      const bool is_usable = !is_sound || is_sound(folder / name);
      (is_usable ? here.recipes : here.faulty_recipes).push_back(name);
      const auto written = is_usable ? write_time_unix_ns(folder / name) : std::nullopt;
      if (written) here.written_unix_ns.emplace(name, *written);
    }
    if (!may_be_recipe && is_training_script(folder / name)) here.scripts.push_back(name);
  }
  if (holds_predictions(folder)) return here;
  if (const auto data = look_at_data(folder, folder, kMaxNames)) here.data = data->found;
  return here;
}

KnownRuns known_runs(const std::filesystem::path& file) {
  constexpr std::int64_t kMaxRuns = 1'000;
  const auto history = open_history(file, storage::Access::read_only);
  if (!history && history.error().kind == ErrorKind::not_found) return {"no runs yet", {}};
  const auto runs = history ? history->runs({.limit = kMaxRuns}) : forward_error(history);
  if (!runs) return {"cannot be read: " + runs.error().message(), {}};
  if (runs->empty()) return {"no runs yet", {}};
  const storage::RunRow& last = runs->front();
  std::string text =
      fmt::format("{} run{}{}, the last {} of {}: {}", runs->size(), runs->size() == 1 ? "" : "s",
                  std::ssize(*runs) == kMaxRuns ? " or more" : "", last.id.text, last.recipe_name,
                  state_text(last));
  if (last.speedup.pairs > 0) text += ", " + estimate_text(last.speedup);
  if (const std::string left_out = left_out_text(last); !left_out.empty()) text += ", " + left_out;
  if (is_script(last.recipe) && is_unconfirmed(last)) text += ", nothing was confirmed";
  return {printable(text), last, stopped_of(*runs)};
}

std::vector<NextStep> next_steps(const FolderState& here,
                                 const std::optional<storage::RunRow>& last,
                                 const std::vector<storage::RunRow>& stopped) {
  std::vector<NextStep> steps;
  const bool is_last_open = last && is_stopped(*last) && !is_script(last->recipe);
  const auto one_here = std::ranges::find_if(stopped, [&here](const storage::RunRow& run) {
    return is_below(recipe_file_of(run), here.folder);
  });
  const storage::RunRow* const unfinished = is_last_open                ? &*last
                                            : one_here != stopped.end() ? &*one_here
                                                                        : nullptr;
  const std::string continuing =
      unfinished != nullptr ? command_of(here, *unfinished) : std::string();
  if (unfinished != nullptr) {
    const std::string name = "run " + unfinished->id.text + " of " + unfinished->recipe_name;
    if (!continuing.empty()) {
      steps.push_back({continuing, "goes on with " + name +
                                       ", which was stopped; give the same options as then"});
    }
    steps.push_back({"autotuned show " + (is_last_open ? "last" : unfinished->id.text),
                     continuing.empty()
                         ? name + " was stopped; the command that began it goes on with it"
                         : "shows what it did until then"});
  }
  if (!here.recipes.empty()) {
    std::string recipe = first_choice(here.recipes);
    std::string why = "tunes, then trains";
    bool is_done = false;
    if (last && has_trained(*last)) {
      const std::string changed = recipe_changed_since(here, *last);
      if (!changed.empty()) {
        recipe = changed;
        why = fmt::format("{} was changed since run {} began", changed, last->id.text);
      }
      // Nothing is left to do for a recipe that has just been trained.
      is_done = changed.empty() && recipe_file_of(*last) == here.folder / recipe;
    }
    if (!last) {
      steps.push_back({"autotuned check " + shell_word(recipe),
                       "looks at the data and the model, trains nothing"});
    }
    const std::string command = "autotuned run " + shell_word(recipe);
    if (command != continuing && !is_done) steps.push_back({command, why});
  }
  if (here.recipes.empty() && !here.faulty_recipes.empty()) {
    steps.push_back({"autotuned check " + shell_word(first_choice(here.faulty_recipes)),
                     "lists the mistakes for which it cannot be run"});
  }
  if (!here.scripts.empty()) {
    steps.push_back({"autotuned run " + shell_word(here.scripts.front()),
                     "runs the script and tunes it while it trains"});
  }
  const bool has_recipe = !here.recipes.empty() || !here.faulty_recipes.empty();
  if (!has_recipe && !here.data.empty()) {
    steps.push_back({"autotuned init", "writes a recipe for the " + here.data});
  } else if (!has_recipe && here.scripts.empty()) {
    steps.push_back({"autotuned init DIR", "writes a recipe for the pictures or arrays in DIR"});
    steps.push_back({"autotuned init", "writes one that makes its own data, to see what happens"});
  }
  if (last && !is_last_open) {
    steps.push_back({"autotuned explain last", "tells what the last run tried, and what it gave"});
    steps.push_back({"autotuned best", "lists what is known to be fastest on this machine"});
  }
  constexpr std::size_t kMax = 4;
  if (steps.size() > kMax) steps.resize(kMax);
  return steps;
}

std::string next_steps_text(const std::vector<NextStep>& steps) {
  std::size_t width = 0;
  for (const NextStep& step : steps)
    width = std::max(width, step.command.size());
  std::string text;
  for (const NextStep& step : steps) {
    text += fmt::format("{:<9}{:<{}}   {}\n", text.empty() ? "next" : "", printable(step.command),
                        width, printable(step.why));
  }
  return text;
}

std::string folder_state_text(const FolderState& here) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : "; ") + part;
  };
  add(shortened(here.recipes));
  if (!here.faulty_recipes.empty()) add(shortened(here.faulty_recipes) + " (with mistakes)");
  add(shortened(here.scripts));
  add(printable(here.data));
  return text.empty() ? "nothing to train on" : text;
}

}  // namespace autotuned::daemon
