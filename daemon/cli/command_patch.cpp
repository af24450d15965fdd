// SPDX-License-Identifier: Apache-2.0
// patch: what was kept for a script, as a unified diff against its text. The history has the kept changes and their
// gains. The script's own interpreter finds the places to change, because it can parse Python
// (python/autotuned/patching). Nothing is written.
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "base/printable.hpp"
#include "base/process/process.hpp"
#include "base/trial.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/tuning_end.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::int64_t kRunsLookedAt = 500;
constexpr std::int64_t kEarlierTrials = 200;
// Finds `env` everywhere, and that finds the interpreter as a shell would.
constexpr const char* kEnv = "/usr/bin/env";
// Isolated: nothing of the script's folder or of PYTHONPATH is imported.
constexpr const char* kProgram =
    "import sys\n"
    "sys.path.insert(0, sys.argv.pop(1))\n"
    "from autotuned.patching.patch import main\n"
    "sys.exit(main())";

// The run whose result is printed, and a newer run without a result, whose id is empty if there is none.
struct PatchedRun {
  storage::RunRow run;
  storage::RunRow unconfirmed;
};

// The newest tuned run of this very text. ErrorKind::not_found says what there is instead.
Result<PatchedRun> newest_run_of(const storage::History& history,
                                 const std::filesystem::path& script) {
  auto content = sha256_hex_of_file(script);
  if (!content) return forward_error(content);
  auto runs = history.runs({.recipe = {},
                            .environment = {},
                            .plugin = {},
                            .verdict = {},
                            .since_unix_ns = {},
                            .limit = kRunsLookedAt});
  if (!runs) return forward_error(runs);
  const std::string tune = "`autotuned run " + shell_word(script.string()) + "`";
  const RunsOfScript found = find_runs_of_script(*runs, *content, script.filename().string());
  if (found.tuned != nullptr) {
    return PatchedRun{*found.tuned,
                      found.unconfirmed != nullptr ? *found.unconfirmed : storage::RunRow{}};
  }
  if (found.unconfirmed != nullptr) {
    const std::string& id = found.unconfirmed->id.text;
    return fail(ErrorKind::not_found, "run " + id + " of this script has confirmed nothing",
                script.string(),
                "`autotuned explain " + id + "` tells what it tried; " + tune + " tunes it again");
  }
  if (found.of_other_text == nullptr) {
    return fail(ErrorKind::not_found, "no run has tuned this script", script.string(),
                tune + " does");
  }
  return fail(ErrorKind::not_found,
              "it has changed since run " + found.of_other_text->id.text + " tuned it",
              script.string(), tune + " tunes it as it is now");
}

// The gain of one knob's change in its last accepted trial, in this run or an earlier one of the job.
std::string gain_of(const std::string& knob, const std::vector<TrialRecord>& trials) {
  const TrialRecord* found = nullptr;
  for (const TrialRecord& trial : trials) {
    const bool is_of_it = trial.kind == TrialKind::proposal && trial.verdict == Verdict::accepted &&
                          trial.change.find(knob) != nullptr;
    if (is_of_it) found = &trial;
  }
  if (found == nullptr) return {};
  std::string text = estimate_text(found->estimate);
  if (found->change.values().size() > 1) text += " with " + found->change.canonical_text();
  return text;
}

Json changes_of(const storage::RunRow& run, const std::vector<TrialRecord>& trials) {
  const Configuration change = run.starting.change_to(run.best);
  Json changes = Json::object();
  for (const auto& [knob, value] : change.values()) {
    const KnobValue* const from = run.starting.find(knob);
    changes[knob] = {{"from", from != nullptr ? to_json(*from) : Json()},
                     {"to", to_json(value)},
                     {"gain", gain_of(knob, trials)}};
  }
  return changes;
}

// The interpreter that the command of the run names; a launcher such as `torchrun` is none.
std::string interpreter_of(const storage::RunRow& run) {
  const Json& command = member(run.recipe, "command");
  if (command.is_array() && !command.empty() && command.front().is_string()) {
    const auto first = command.front().get<std::string>();
    if (std::filesystem::path(first).filename().string().starts_with("python")) return first;
  }
  return "python3";
}

Result<int> run_python(const std::string& interpreter, const Json& question) {
  const std::filesystem::path package =
      find_installation_paths().startup.parent_path().parent_path();
  ProcessSpec spec;
  spec.program = kEnv;
  spec.arguments = {interpreter, "-I", "-B", "-c", kProgram, package.string(), to_line(question)};
  spec.environment = whole_environment();
  spec.new_group = false;
  std::cout.flush();
  auto process = Process::start(spec);
  if (!process) return forward_error(process);
  const auto exit = process->wait(std::chrono::nanoseconds(-1));
  if (exit && exit->signal == 0 && exit->code == 0) return kDone;
  return fail(ErrorKind::unsupported,
              "the script's Python could not read it: " +
                  (exit ? exit->message() : std::string("it did not finish in time")),
              interpreter, "activate the environment in which the script was tuned");
}

}  // namespace

int patch(const std::filesystem::path& file, const std::filesystem::path& script, bool as_json) {
  if (::access(script.c_str(), R_OK) != 0) {
    return report_error(system_error(errno, "cannot read the script", script.string()),
                        kUsageError);
  }
  auto history = open_history(file, storage::Access::read_only);
  if (!history) return report_error(history.error());
  const auto found = newest_run_of(*history, script);
  if (!found) return report_error(found.error(), exit_code_of(found.error()));
  const storage::RunRow* const run = &found->run;
  const std::string& newer = found->unconfirmed.id.text;
  if (!newer.empty()) {
    report_warning("this is of run " + run->id.text + ": the newer run " + newer +
                   " of the script has confirmed nothing (`autotuned explain " + newer + "`)");
  }
  auto trials =
      history->job_trials(run->environment_key, run->recipe_hash, kEarlierTrials, run->id);
  if (!trials) return report_error(trials.error());
  auto own = history->trials(run->id);
  if (!own) return report_error(own.error());
  trials->insert(trials->end(), own->begin(), own->end());
  const Json changes = changes_of(*run, *trials);
  if (changes.empty() && !as_json) {
    std::cerr << "run " << run->id.text << " kept nothing: there is nothing to change\n";
    return kDone;
  }
  if (!as_json) {
    std::cout << "# What run " << run->id.text << " kept for " << script.string() << ": "
              << estimate_text(run->speedup)
              << " in all. Apply it with `patch -p0` or `git apply -p0`.\n";
  }
  const auto code = run_python(interpreter_of(*run), {{"script", script.string()},
                                                      {"run", run->id.text},
                                                      {"newer_unconfirmed_run", newer},
                                                      {"changes", changes},
                                                      {"best", run->best.to_json()},
                                                      {"places", member(run->training, "places")},
                                                      {"as_json", as_json}});
  return code ? *code : report_error(code.error(), kEnvironmentUnusable);
}

}  // namespace autotuned::daemon
