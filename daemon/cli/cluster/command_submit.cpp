// SPDX-License-Identifier: Apache-2.0
// submit: a run, or one for each of several recipes, as a job of Slurm.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/identifier.hpp"
#include "base/machine/machine.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/user_folders.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/settings.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/slurm/job_script.hpp"
#include "daemon/slurm/slurm.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxCpus = 4096;

// A machine that refuses no knob: the node of the job may have what this machine lacks, and will refuse what it lacks
// itself.
Machine any_node() {
  Machine machine = detect_machine();
  machine.cpus_allowed = machine.physical_cores = kMaxCpus;
  if (machine.gpus.empty()) machine.gpus.emplace_back();
  for (auto& [name, reason] : machine.allocators)
    reason.clear();
  return machine;
}

struct Submitted {
  std::vector<recipes::Recipe> all;
  int ranks = 1;
};

// Why two runs of these recipes cannot run at the same time; empty if they can.
std::string conflict_of(const std::vector<recipes::Recipe>& recipes) {
  std::map<fs::path, fs::path> file_of;
  for (const recipes::Recipe& recipe : recipes) {
    const auto [other, is_new] = file_of.emplace(recipe.output_dir, recipe.file);
    if (is_new) continue;
    return recipe.file.string() + " and " + other->second.string() +
           " write into one output folder, " + recipe.output_dir.string() +
           "; give each its own output.dir";
  }
  return {};
}

// Prints what is wrong.
std::optional<Submitted> read_recipes(const SubmitOptions& options) {
  const std::vector<std::string> names = plugin_names_here(options.plugin_folders);
  const auto trainer_plugins = trainer_plugins_here(options.plugin_folders);
  const auto knobs = knobs_with(recipes::knobs_of(any_node()), trainer_plugins);
  Submitted submitted;
  for (const fs::path& file : options.recipes) {
    auto recipe = read_recipe_or_report(file, knobs, options.as_json, names);
    if (!recipe) return std::nullopt;
    if (report_problems(workload_problems(*recipe, trainer_plugins), options.as_json)) {
      return std::nullopt;
    }
    if (auto applied = apply_settings(options.settings, knobs, *recipe); !applied) {
      usage_error(applied.error().message());
      return std::nullopt;
    }
    if (options.ranks) recipe->train.ranks = *options.ranks;
    if (const auto allowed = recipes::refuse_ranks(*recipe); !allowed) {
      usage_error(allowed.error().message());
      return std::nullopt;
    }
    if (!submitted.all.empty() && recipe->train.ranks != submitted.ranks) {
      usage_error(fmt::format(
          "{} has {} ranks and {} has {}, and all jobs of an array get the same: submit them "
          "apart, "
          "or say --ranks N",
          options.recipes.front().string(), submitted.ranks, file.string(), recipe->train.ranks));
      return std::nullopt;
    }
    submitted.ranks = static_cast<int>(recipe->train.ranks);
    submitted.all.push_back(std::move(*recipe));
  }
  if (const std::string conflict = conflict_of(submitted.all); !conflict.empty()) {
    usage_error(conflict);
    return std::nullopt;
  }
  return submitted;
}

std::vector<std::string> run_options_of(const SubmitOptions& options, int ranks) {
  std::vector<std::string> words;
  const auto add = [&words](const std::string& name, const std::string& value) {
    words.insert(words.end(), {name, value});
  };
  // The option is always given: if this command runs in a step of srun, the job inherits that step's variables.
  add("--ranks", std::to_string(ranks));
  if (options.budget) add("--budget", *options.budget);
  for (const std::string& setting : options.settings)
    add("--set", setting);
  for (const fs::path& folder : options.plugin_folders)
    add("--plugin-dir", fs::absolute(folder).string());
  if (options.tune_only) words.emplace_back("--tune-only");
  if (options.retune) words.emplace_back("--retune");
  return words;
}

// A copy of what is known here, for the jobs to begin with; empty where nothing is known.
fs::path copy_known(const fs::path& given, const fs::path& target) {
  const fs::path file = given.empty() ? storage::History::default_path() : given;
  const auto history = storage::History::open(file, storage::Access::read_only);
  const Result<storage::BackupCopy> copied =
      history ? history->backup(target, false) : forward_error(history);
  if (copied) return target;
  if (copied.error().kind != ErrorKind::not_found) {
    report_warning("the job starts without the history of this machine: " +
                   copied.error().message());
  }
  return {};
}

std::string name_of(const std::vector<recipes::Recipe>& recipes) {
  return recipes.size() == 1 ? recipes.front().name : std::to_string(recipes.size()) + "-recipes";
}

void print_submitted(const SubmitOptions& options, const JobScript& job, const fs::path& script,
                     const std::string& number) {
  const std::vector<std::string> names = job_file_names(number, job.recipes.size());
  if (options.as_json) {
    Json runs = Json::array();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string file = (job.folder / names[i]).string();
      runs.push_back({{"id", std::string(kSlurmPrefix) + names[i]},
                      {"recipe", job.recipes[i].string()},
                      {"log", file + ".log"},
                      {"history", file + ".db"}});
    }
    std::cout << to_line({{"job", std::string(kSlurmPrefix) + number},
                          {"script", script.string()},
                          {"runs", runs}})
              << "\n";
    return;
  }
  const std::string folder = shell_word(options.job_folder.string());
  const bool is_array = names.size() > 1;
  std::cout << fmt::format(
      "job slurm:{0}: {1}\n"
      "  `autotuned status slurm:{0}` shows it, `autotuned cancel slurm:{0}` stops it\n"
      "log      {2}/{3}.log\n"
      "then     autotuned history import {2}/{4}.db\n",
      number, printable(job.name), folder,
      is_array ? names.front() + ".log to " + names.back() : number,
      is_array ? number + "_*" : number);
}

}  // namespace

int submit(const SubmitOptions& options) {
  if (const auto here = current_folder(); !here) {
    return report_error(here.error(), kEnvironmentUnusable);
  }
  if (auto checked = check_plugin_folders(options.plugin_folders); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  if (options.budget && !parse_duration(*options.budget)) {
    return usage_error("--budget " + *options.budget + ": expected a time such as 10min");
  }
  const std::string nodes = nodes_asked_for(options.slurm_options);
  if (!nodes.empty() && nodes != "1" && nodes != "1-1") {
    return usage_error("--nodes " + nodes +
                       ": the ranks of a run train on one node so far; leave it out, or submit "
                       "several recipes, each of which gets a node of its own");
  }
  auto submitted = read_recipes(options);
  if (!submitted) return kUsageError;

  JobScript job{.name = name_of(submitted->all),
                .ranks = submitted->ranks,
                .program = find_installation_paths().program,
                .run_options = run_options_of(options, submitted->ranks),
                .folder = fs::absolute(options.job_folder).lexically_normal()};
  for (const recipes::Recipe& recipe : submitted->all)
    job.recipes.push_back(recipe.file);
  if (const auto made = make_folders(job.folder); !made) {
    return report_error(made.error(), kEnvironmentUnusable);
  }
  // The number of the job is not known yet.
  const std::string token = make_run_id(SystemClock().unix_time_ns()).text;
  job.known = copy_known(options.history, job.folder / (token + ".known"));
  const fs::path unnamed = job.folder / (token + ".sh");
  if (const auto written = write_file_atomically(unnamed, script_text(job)); !written) {
    return report_error(written.error(), kEnvironmentUnusable);
  }
  std::vector<std::string> slurm_options = {"--output=" +
                                            log_pattern(job.folder, job.recipes.size())};
  slurm_options.insert(slurm_options.end(), options.slurm_options.begin(),
                       options.slurm_options.end());
  const auto number = submit_script(unnamed, slurm_options);
  std::error_code ignored;
  if (!number) {
    fs::remove(unnamed, ignored);
    if (!job.known.empty()) fs::remove(job.known, ignored);
    return report_error(number.error(), number.error().kind == ErrorKind::unsupported
                                            ? kEnvironmentUnusable
                                            : kWorkFailed);
  }
  fs::path script = job.folder / (*number + ".sh");
  fs::rename(unnamed, script, ignored);
  if (ignored) script = unnamed;
  print_submitted(options, job, script, *number);
  return kDone;
}

}  // namespace autotuned::daemon
