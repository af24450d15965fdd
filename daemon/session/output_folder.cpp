// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/output_folder.hpp"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/user_folders.hpp"
#include "plugins/host/trust.hpp"
#include "recipes/yaml.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;

// A session that was killed, and its trainers, may be on their way out.
constexpr std::chrono::seconds kLockLimit{5};
constexpr std::chrono::milliseconds kLockAgain{50};
constexpr const char* kRule =
    "the folder must be owned by this user and writable by nobody else: change its owner or mode, "
    "or name another with "
    "--output";

constexpr const char* kLogFolder = "log";

// Folders below the root that belong to the system.
constexpr std::array<std::string_view, 13> kOfSystem = {"bin", "boot",  "dev",  "etc", "home",
                                                        "lib", "lib64", "proc", "run", "sbin",
                                                        "sys", "usr",   "var"};

// Whether `place` is `folder` or lies below it. Both are without links.
bool is_within(const fs::path& place, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), place.begin(), place.end()).first ==
         folder.end();
}

// The folder of a run's logs which `place`, without links, is or lies in; empty if there is none.
fs::path logs_around(const fs::path& place) {
  std::error_code ignored;
  for (fs::path folder = place; folder.has_relative_path(); folder = folder.parent_path()) {
    if (folder.filename() == kLogFolder && fs::exists(folder / kOutputLock, ignored)) return folder;
  }
  return {};
}

Result<void> check_folder(const fs::path& folder, bool may_be_link) {
  struct stat found {};
  const int looked = may_be_link ? ::stat(folder.c_str(), &found) : ::lstat(folder.c_str(), &found);
  if (looked != 0) {
    return tl::unexpected(system_error(errno, "cannot look at the folder", folder.string()));
  }
  if (S_ISLNK(found.st_mode)) {
    return fail(ErrorKind::permission, "it is a link, and what is written there would go elsewhere",
                folder.string(), "remove the link, or name another folder with --output");
  }
  if (!S_ISDIR(found.st_mode)) {
    return fail(ErrorKind::invalid, "it is not a folder", folder.string(),
                "name another folder with --output");
  }
  const plugins::Viewer viewer = plugins::Viewer::current();
  std::string reason = plugins::distrust(found, viewer, /*is_ancestor=*/false);
  if (reason.empty()) reason = plugins::distrust_acl(folder.string(), viewer);
  if (reason.empty()) return {};
  return fail(ErrorKind::permission, "the output folder " + reason, folder.string(), kRule);
}

Result<Descriptor> lock_output(const fs::path& file, const std::string& holder) {
  const auto give_up = std::chrono::steady_clock::now() + kLockLimit;
  for (;;) {
    auto lock = lock_file(file, holder, /*wait=*/false);
    const bool is_busy = !lock && lock.error().kind == ErrorKind::busy;
    if (!is_busy) return lock;
    if (std::chrono::steady_clock::now() >= give_up) {
      return fail(ErrorKind::busy,
                  "another run writes into the output folder: " + lock.error().what, file.string(),
                  "wait for its end, or name another folder with --output");
    }
    std::this_thread::sleep_for(kLockAgain);
  }
}

bool pattern_matches(const std::string& pattern, const fs::path& path) {
  // As glob() does.
  return ::fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

// The names of the files that a run of the recipe writes into its output folder, with the id r-1.
std::vector<const char*> names_of_written(const recipes::Recipe& recipe, bool trains) {
  std::vector<const char*> names = {"best.yaml",
                                    "summary.json",
                                    "log/run.lock",
                                    "log/training.jsonl",
                                    "log/trainer-1.log",
                                    "log/start.pt.trace.json.gz",
                                    "log/best.pt.trace.json.gz"};
  if (!trains) return names;
  names.insert(names.end(), {"model.pt", kTrainingState, "checkpoint-r-1.pt", "held_out.txt"});
  const bool has_averages = recipe.step_rules.ema_decay.has_value();
  if (has_averages) names.push_back("model_ema.pt");
  if (recipe.evaluation && recipe.evaluation->saves_best) {
    names.insert(names.end(), {"model_best.pt", "model_best-r-1.pt"});
    if (has_averages) names.push_back("model_best_ema.pt");
  }
  if (recipe.save_every_epochs) names.push_back("weights-r-1/model_epoch_1.pt");
  if (recipe.save_every_steps) names.push_back("weights-r-1/model_step_1.pt");
  return names;
}

// The place as it is named, and as it is reached without links.
std::vector<fs::path> ways_to(const fs::path& place) {
  std::vector<fs::path> ways = {place.lexically_normal()};
  if (!ways.front().has_filename()) ways.front() = ways.front().parent_path();
  std::error_code failed;
  fs::path real = fs::weakly_canonical(place, failed);
  if (!failed && real != ways.front()) ways.push_back(std::move(real));
  return ways;
}

// The file in the folder that a run would write and its recipe reads; empty where there is none.
fs::path written_and_read(const recipes::InputFiles& files, const fs::path& folder,
                          const std::vector<const char*>& names) {
  const std::vector<fs::path> read =
      files.is_pattern ? std::vector<fs::path>() : ways_to(files.path);
  for (const fs::path& way : ways_to(folder)) {
    for (const char* const name : names) {
      const fs::path file = way / name;
      const bool is_read = files.is_pattern ? pattern_matches(files.path, file)
                                            : std::ranges::find(read, file) != read.end();
      if (is_read) return file;
    }
  }
  return {};
}

}  // namespace

// The root, the folders of the system and the home of the user hold what is not a run's, even where the user may write there.
Result<void> check_purpose_of_output(const fs::path& folder) {
  constexpr const char* kRemedy = "name a folder for this job, with output.dir or --output";
  std::error_code failed;
  const fs::path place = fs::weakly_canonical(folder, failed);
  if (failed) return {};
  const bool is_root = place == place.root_path();
  const std::string name = place.filename().string();
  const bool is_of_system = place.parent_path() == place.root_path() &&
                            std::ranges::find(kOfSystem, std::string_view(name)) != kOfSystem.end();
  if (is_root || is_of_system) {
    return fail(ErrorKind::invalid, "this folder is the system's, and no output folder",
                folder.string(), kRemedy);
  }
  // Where the system knows no home, the current folder stands for it.
  const fs::path home = home_folder();
  std::error_code ignored;
  if (home.is_absolute() && fs::equivalent(place, home, ignored)) {
    return fail(ErrorKind::invalid, "this is the home of the user, and no output folder",
                folder.string(), kRemedy);
  }
  if (const fs::path logs = logs_around(place); !logs.empty()) {
    return fail(ErrorKind::invalid,
                "another run keeps its logs in " + logs.string() + ", which is no output folder",
                folder.string(), kRemedy);
  }
  const fs::path state = fs::weakly_canonical(state_folder(), ignored);
  if (!state.empty() && is_within(place, state)) {
    return fail(
        ErrorKind::invalid,
        "the history and the queue are kept in " + state.string() + ", which is no output folder",
        folder.string(), kRemedy);
  }
  return {};
}

Result<OutputFolder> open_output_folder(const fs::path& folder, const std::string& holder) {
  if (auto checked = check_purpose_of_output(folder); !checked) return forward_error(checked);
  OutputFolder output{.log = folder / kLogFolder, .lock = {}, .problem = {}};
  for (const fs::path& place : {folder, output.log}) {
    std::error_code failed;
    fs::create_directories(place, failed);
    if (failed) {
      return tl::unexpected(
          system_error(failed.value(), "cannot make the output folder", place.string()));
    }
    auto checked = check_folder(place, /*may_be_link=*/place == folder);
    if (!checked) return tl::unexpected(checked.error());
  }
  auto lock = lock_output(output.log / kOutputLock, holder);
  if (lock) {
    output.lock = *std::move(lock);
    for (const fs::path& place : {folder, output.log})
      remove_unfinished_files(place);
    return output;
  }
  // Anything else than a file system without locks would keep the trainers from writing, too.
  if (lock.error().kind != ErrorKind::unsupported) return tl::unexpected(lock.error());
  output.problem = lock.error().message();
  return output;
}

void clear_output_folder(const fs::path& folder) {
  const fs::path log = folder / kLogFolder;
  std::error_code ignored;
  if (!fs::exists(log / kOutputLock, ignored)) return;
  // The holder of the lock may be writing such files now.
  const auto lock = lock_file(log / kOutputLock, {}, /*wait=*/false);
  if (!lock) return;
  for (const fs::path& place : {folder, log})
    remove_unfinished_files(place);
}

Result<void> check_place_of_model(const fs::path& model) {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(model, ignored))) return {};
  return fail(ErrorKind::invalid, "a folder stands where the trained model is to be written",
              model.string(), "move it away, or name another folder with --output");
}

Result<void> check_place_of_best(const fs::path& folder, const fs::path& recipe) {
  const fs::path best = folder / "best.yaml";
  std::error_code ignored;
  if (recipe.empty() || !fs::equivalent(best, recipe, ignored)) return {};
  // A best.yaml that a run wrote may be run again: the next one contains the same settings.
  const auto text = read_file(best, recipes::kMaxYamlBytes);
  if (text && text->starts_with("# " + std::string(kBestComment))) return {};
  return fail(ErrorKind::invalid, "this is the recipe itself, and the run would replace it",
              best.string(), "rename it, or name another folder with --output");
}

Result<void> check_output_folder(const fs::path& folder) {
  if (auto checked = check_purpose_of_output(folder); !checked) return checked;
  for (const fs::path& place : {folder, folder / kLogFolder}) {
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(place, ignored))) continue;
    auto checked = check_folder(place, /*may_be_link=*/place == folder);
    if (!checked) return checked;
  }
  return check_place_of_model(folder / "model.pt");
}

Result<void> check_input_files(const recipes::Recipe& recipe, const fs::path& history,
                               bool trains) {
  const std::vector<const char*> names = names_of_written(recipe, trains);
  for (const recipes::InputFiles& files : recipes::input_files_of(recipe)) {
    const fs::path both = written_and_read(files, recipe.output_dir, names);
    if (!both.empty() && !files.is_pattern) {
      return fail(ErrorKind::invalid,
                  "the run itself writes " + both.string() +
                      " into its output folder, and would replace the file that it reads",
                  files.key, "copy it to another place, or name another output folder");
    }
    const bool has_history = files.is_pattern && pattern_matches(files.path, history);
    if (both.empty() && !has_history) continue;
    return fail(ErrorKind::invalid,
                "the pattern " + files.path + " matches what the run itself writes, such as " +
                    (both.empty() ? history : both).string(),
                files.key,
                "write a pattern that leaves it out, such as one with the ending of the data, or "
                "name another output folder");
  }
  return {};
}

std::array<fs::path, 2> best_models_of(const fs::path& folder, const std::string& run) {
  return {folder / ("model_best-" + run + ".pt"), folder / ("model_best-" + run + "_ema.pt")};
}

Result<void> publish_best_model(const fs::path& folder, const std::string& run) {
  const auto [weights, averages] = best_models_of(folder, run);
  for (const auto& [saved, name] :
       {std::pair(weights, "model_best.pt"), std::pair(averages, "model_best_ema.pt")}) {
    std::error_code ignored;
    if (!fs::exists(saved, ignored)) continue;
    if (auto published = publish_file(saved, folder / name); !published) return published;
  }
  return {};
}

void settle_checkpoint(const fs::path& folder, const std::string& run, bool keeps_state) {
  const fs::path checkpoint = folder / ("checkpoint-" + run + ".pt");
  const fs::path state = folder / kTrainingState;
  std::error_code ignored;
  if (!fs::exists(checkpoint, ignored)) return;
  for (const fs::path& best : best_models_of(folder, run))
    fs::remove(best, ignored);
  // The state is that of a training that has ended since. A missing file counts as oldest.
  if (fs::last_write_time(state, ignored) > fs::last_write_time(checkpoint, ignored)) {
    fs::remove(checkpoint, ignored);
    return;
  }
  if (keeps_state) {
    fs::rename(checkpoint, state, ignored);
    return;
  }
  fs::remove(state, ignored);
  fs::remove(checkpoint, ignored);
}

}  // namespace autotuned::daemon
