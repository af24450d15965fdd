// SPDX-License-Identifier: Apache-2.0
// profile: some steps of a recipe as a trace, and what analyze says about it.
#include "daemon/cli/command_profile.hpp"

#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/cli/run_request.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/settings.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/common/used_device.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/profile_view/profile_page.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/session/command_device.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "profiler/traces/reader.hpp"
#include "storage/location.hpp"

namespace autotuned::daemon {

namespace {

// In the form that TensorBoard's plugin looks for.
std::string file_name(const std::string& recipe) {
  const std::int64_t now_ms = SystemClock().unix_time_ns() / 1'000'000;
  return recipe + "." + std::to_string(now_ms) + ".pt.trace.json.gz";
}

// The file of the trace. Its folder is there afterwards.
Result<std::filesystem::path> place_of_trace(const ProfileOptions& options,
                                             const recipes::Recipe& recipe) {
  std::filesystem::path folder = recipe.output_dir;
  std::filesystem::path file = file_name(recipe.name);
  if (options.output) {
    folder = *options.output;
    const std::string name = folder.filename().string();
    if (name.ends_with(".json")) {
      return fail(ErrorKind::invalid, "traces are written gzipped", "--output " + folder.string(),
                  "let the name end in .pt.trace.json.gz, or name a folder");
    }
    if (name.ends_with(".json.gz")) {
      file = folder.filename();
      folder = folder.parent_path();
    }
  }
  folder = std::filesystem::absolute(folder);
  if (auto checked = storage::check_no_side_file(folder); !checked) return forward_error(checked);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return tl::unexpected(
        system_error(failed.value(), "cannot make the folder of the trace", folder.string()));
  }
  return folder / file;
}

// The traces of all ranks: rank 2 writes a.rank2.pt.trace.json.gz beside a.pt.trace.json.gz.
std::vector<std::filesystem::path> traces_of_ranks(const std::filesystem::path& file, int ranks) {
  std::vector<std::filesystem::path> files = {file};
  std::string stem = file.filename().string();
  std::string end;
  for (const std::string_view known : {".pt.trace.json.gz", ".json.gz"}) {
    if (!stem.ends_with(known)) continue;
    end = known;
    stem.resize(stem.size() - known.size());
    break;
  }
  for (int rank = 1; rank < ranks; ++rank)
    files.push_back(file.parent_path() / (stem + ".rank" + std::to_string(rank) + end));
  return files;
}

// Only an earlier trace of `profile` or an empty file may be replaced. Any other file, such as a trace that
// torch.profiler wrote, would be lost.
Result<void> check_trace_file(const std::filesystem::path& file) {
  if (auto checked = check_output_file(file, /*may_replace=*/true); !checked) return checked;
  std::error_code failed;
  if (!std::filesystem::exists(file, failed)) return {};
  if (std::filesystem::file_size(file, failed) == 0 || traces::is_own_trace(file)) return {};
  return fail(ErrorKind::invalid, "it is not a trace that `profile` has written, and would be lost",
              file.string(), "name another file, or remove this one");
}

// The trainer's answer. Signals end the recording and nothing else.
Result<Json> record(const recipes::Recipe& recipe, const std::vector<recipes::Knob>& knobs,
                    const std::vector<plugins::FoundPlugin>& trainer_plugins,
                    const Machine& machine, const std::vector<std::filesystem::path>& files,
                    const ProfileOptions& options, std::chrono::nanoseconds limit) {
  const std::filesystem::path& file = files.front();
  const auto lock = lock_device_for("profile", recipe, machine);
  if (!lock) return tl::unexpected(lock.error());
  TrainerBackendSpec spec;
  spec.recipe = recipe;
  spec.knobs = knobs;
  spec.extension_knobs = extension_knobs(trainer_plugins);
  auto libraries = libraries_for(recipe, trainer_plugins);
  if (!libraries) return tl::unexpected(libraries.error());
  spec.plugins = *std::move(libraries);
  spec.trainer = find_installation_paths().trainer;
  spec.folder = file.parent_path() / "log";
  spec.device_locks = lock->descriptors();
  // A run on another device may write there.
  const auto logs = lock_logs_for("profile", recipe, spec.folder);
  if (!logs) return forward_error(logs);
  if (logs->is_open()) spec.device_locks.push_back(logs->get());
  spec.on_damage = [](const Json& damaged) {
    std::cerr << printable("skipped " + get_string(damaged, "file").value_or("?") + ": " +
                           get_string(damaged, "what").value_or("?"))
              << "\n";
  };
  spec.on_warning = report_warning;
  SignalCancel cancel;
  TrainerBackend job(std::move(spec), cancel);
  const Configuration configuration = recipe.starting_configuration(knobs);
  if (auto started = job.start(configuration); !started) return tl::unexpected(started.error());
  for (const MachineFinding& finding :
       device_findings(recipe, job.hello(), job.facts(), machine, is_gpu_there(machine)))
    report_warning(finding.subject + ": " + finding.text);
  Json request = {
      {"path", file.string()},    {"active", options.steps},          {"warmup", options.warmup},
      {"wait", options.wait},     {"skip_first", options.skip_first}, {"repeat", options.repeat},
      {"shapes", options.shapes}, {"memory", options.memory}};
  for (std::size_t rank = 1; rank < files.size(); ++rank)
    request["rank_paths"].push_back(files[rank].string());
  // The checkpoint is written beside the trace, on the storage to which a run would write.
  if (options.checkpoint) request["checkpoint_path"] = file.string() + ".checkpoint";
  return job.trace(configuration, std::move(request), limit);
}

// `launched`: the ranks that a launcher has started, instead of the recipe's.
int profile_recipe(const ProfileOptions& options, std::optional<int> launched) {
  // Relative paths in the options start at the current folder, so it must be there.
  if (auto folder = current_folder(); !folder) {
    return report_error(folder.error(), kEnvironmentUnusable);
  }
  if (auto checked = check_plugin_folders(options.plugin_folders); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  const Machine machine = detect_machine();
  const auto trainer_plugins = trainer_plugins_here(options.plugin_folders);
  auto knobs = knobs_with(recipes::knobs_of(machine), trainer_plugins);
  auto recipe = read_recipe_or_report(options.recipe, knobs, options.as_json);
  if (!recipe) return kUsageError;
  if (report_problems(workload_problems(*recipe, trainer_plugins), options.as_json)) {
    return kUsageError;
  }
  if (auto applied = apply_settings(options.settings, knobs, *recipe); !applied) {
    return report_error(applied.error(), kUsageError);
  }
  recipe->train.ranks = options.ranks.value_or(launched.value_or(recipe->train.ranks));
  if (const auto allowed = recipes::refuse_ranks(*recipe); !allowed) {
    return report_error(allowed.error(), kUsageError);
  }
  const int ranks = recipe->train.ranks;
  knobs = recipes::with_ranks(std::move(knobs), ranks);
  auto limit = parse_duration(options.limit);
  if (!limit || limit->count() <= 0) {
    return report_error(
        {ErrorKind::invalid, "expected a time such as 2min", "--limit " + options.limit, {}},
        kUsageError);
  }
  const auto file = place_of_trace(options, *recipe);
  if (!file) {
    return report_error(file.error(),
                        file.error().kind == ErrorKind::invalid ? kUsageError : kWorkFailed);
  }
  const auto files = traces_of_ranks(*file, ranks);
  for (const std::filesystem::path& trace : files) {
    if (auto checked = check_trace_file(trace); !checked) {
      return report_error(checked.error(), exit_code_of(checked.error()));
    }
  }
  if (const std::filesystem::path& page = options.analysis.html; !page.empty()) {
    if (auto checked = storage::check_no_side_file(page); !checked) {
      return report_error(checked.error(), exit_code_of(checked.error()));
    }
    if (auto checked = check_page_file(page, files); !checked) {
      return report_error(checked.error(), exit_code_of(checked.error()));
    }
  }
  const auto traced = record(*recipe, knobs, trainer_plugins, machine, files, options, *limit);
  if (!traced) return report_measuring_error(traced.error());

  const std::int64_t wanted = options.steps * options.repeat;
  const std::int64_t steps = get_integer(*traced, "steps").value_or(0);
  if (steps < wanted) {
    report_warning(std::to_string(steps) + " of " + std::to_string(wanted) +
                   " steps were recorded within " + options.limit + "; --limit gives it more time");
  }
  const std::int64_t lost = get_integer(*traced, "lost_events").value_or(0);
  if (lost > 0) {
    report_warning("the recording was full and lost " + format_count(lost) +
                   " events; --steps makes it shorter");
  }
  AnalyzeOptions analysis = options.analysis;
  analysis.traces = files;
  // With several ranks, also show which ranks wait, unless the user has chosen views.
  if (ranks > 1 && analysis.views == AnalyzeOptions().views) {
    analysis.views.emplace_back("distributed");
  }
  analysis.by_shape = options.shapes;
  analysis.as_json = options.as_json;
  return analyze(analysis);
}

}  // namespace

int profile(const ProfileOptions& options) {
  return measure_once_for_launcher(
      [&options](std::optional<int> ranks) { return profile_recipe(options, ranks); });
}

}  // namespace autotuned::daemon
