// SPDX-License-Identifier: Apache-2.0
// doctor: one line per thing that a run needs, with what to do about it.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/machine_state.hpp"
#include "base/text.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/used_device.hpp"
#include "daemon/guide/next_step.hpp"
#include "daemon/plugin_list/plugin_survey.hpp"
#include "daemon/report/report.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "daemon/trainers/trainer_client.hpp"
#include "daemon/trainers/trainer_environment.hpp"
#include "plugins/host/loader.hpp"
#include "recipes/knobs.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

enum class Health { ok, warning, broken };

struct HealthFinding {
  Health health = Health::ok;
  std::string subject;
  std::string text;
};

const char* to_text(Health health) {
  switch (health) {
    case Health::ok:
      return "ok";
    case Health::warning:
      return "warning";
    case Health::broken:
      return "broken";
  }
  return "";
}

HealthFinding examine_processor(const Machine& machine) {
  std::string features = fmt::format("{}", fmt::join(machine.cpu_features, " "));
  if (features.empty()) features = "none that training uses";
  return {Health::ok, "processor",
          fmt::format("{}, {} allowed, features: {}", machine.cpu_model,
                      format_counted(machine.cpus_allowed, "CPU"), features)};
}

HealthFinding examine_precision(const Machine& machine) {
  if (!machine.gpus.empty() || machine.has_cpu_feature("avx512_bf16") ||
      machine.has_cpu_feature("amx_bf16")) {
    return {Health::ok, "16-bit arithmetic", "the hardware supports it"};
  }
  return {Health::warning, "16-bit arithmetic",
          "this CPU has neither AVX512-BF16 nor AMX, so mixed precision is no faster"};
}

HealthFinding examine_gpu(const Machine& machine) {
  if (machine.gpus.empty()) return {Health::warning, "GPU", "none: " + machine.gpu_reason};
  std::string names;
  for (const Gpu& gpu : machine.gpus) {
    names += fmt::format("{}{} ({}, compute capability {}.{})", names.empty() ? "" : ", ", gpu.name,
                         format_bytes(gpu.memory_bytes), gpu.compute_capability_major,
                         gpu.compute_capability_minor);
  }
  return {Health::ok, "GPU", names + ", driver " + machine.gpu_driver};
}

// "cuda:0 is NVIDIA H100": numbers of CUDA are not always those of nvidia-smi.
std::string devices_text(const Json& hello, const Machine& machine) {
  std::string text;
  int number = 0;
  for (const Json& uuid : member(hello, "device_uuids")) {
    const std::string whole = "GPU-" + (uuid.is_string() ? uuid.get<std::string>() : "");
    const auto found = std::ranges::find(machine.gpus, whole, &Gpu::uuid);
    text += fmt::format(", cuda:{} is {}", number++,
                        found != machine.gpus.end()
                            ? found->name
                            : "a part of a GPU, or a GPU that NVML does not list");
  }
  return text;
}

// The usual reason why CUDA has no device where there is a driver.
std::string hidden_text() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? std::string()
                            : fmt::format(
                                  "; CUDA_VISIBLE_DEVICES is \"{}\" here, which hides every "
                                  "GPU that it does not name",
                                  visible);
}

HealthFinding examine_trainer(const InstallationPaths& paths, const Machine& machine) {
  NeverCancelled cancel;
  TrainerSpec spec;
  spec.program = paths.trainer;
  spec.environment = trainer_environment();
  spec.log = "/dev/null";
  auto trainer = TrainerClient::start(spec, cancel);
  if (!trainer) {
    std::string text = paths.trainer.string() + ": " + trainer.error().message();
    if (trainer.error().kind == ErrorKind::crashed) {
      text += "; if LibTorch was moved, set AUTOTUNED_LIBTORCH to its folder";
    }
    return {Health::broken, "trainer", text};
  }
  const std::string text =
      fmt::format("{}, LibTorch {}", get_string(trainer->hello(), "trainer").value_or("?"),
                  get_string(trainer->hello(), "libtorch").value_or("?"));
  const std::string cuda = get_string(trainer->hello(), "cuda_reason").value_or("");
  const std::string cupti = get_string(trainer->hello(), "cupti_reason").value_or("");
  const std::string devices = devices_text(trainer->hello(), machine);
  trainer->stop();
  if (!cuda.empty()) {
    return {is_gpu_there(machine) ? Health::warning : Health::ok, "trainer",
            text + ", CPU only: " + cuda + hidden_text()};
  }
  if (cupti.empty()) {
    return {Health::ok, "trainer", text + devices + ", profiles of the GPU with CUPTI"};
  }
  return {Health::warning, "trainer", text + devices + ", no GPU in profiles: " + cupti};
}

HealthFinding examine_plugins(const InstallationPaths& paths) {
  const auto found = survey_plugins(plugins::plugin_folders({}, paths.built_in_plugins));
  if (!found) return {Health::broken, "plugins", found.error().message()};
  std::string unusable;
  std::size_t ready = 0;
  for (const SurveyedPlugin& plugin : *found) {
    if (plugin.is_ready()) {
      ++ready;
    } else if (plugin.state != plugins::to_string(plugins::FoundPlugin::State::unsupported)) {
      unusable += "; " + plugin.path.string() + ": " + plugin.refusal;
    }
  }
  if (ready == 0) {
    return {Health::broken, "plugins",
            "no plugin is ready in " + paths.built_in_plugins.string() + unusable};
  }
  return {unusable.empty() ? Health::ok : Health::warning, "plugins",
          std::to_string(ready) + " ready" + unusable};
}

// A finding for each pair of tables with a missing reference: a row of the one lacks its row in the other.
std::vector<HealthFinding> missing_references(const std::string& file,
                                              const std::vector<std::string>& lines) {
  std::vector<HealthFinding> findings;
  for (const std::string& line : lines) {
    findings.push_back({Health::warning, "history",
                        file + ": " + line +
                            "; everything else can be read. A copy that 'autotuned history backup' "
                            "made earlier may have both"});
  }
  return findings;
}

std::vector<HealthFinding> examine_history(const std::filesystem::path& file) {
  const auto one = [](Health health, std::string text) {
    return std::vector{HealthFinding{health, "history", std::move(text)}};
  };
  auto history = storage::History::open(file, storage::Access::read_only);
  if (!history && history.error().kind == ErrorKind::not_found) {
    return one(Health::ok, file.string() + " does not exist yet; the first run creates it");
  }
  if (!history) return one(Health::broken, history.error().message());
  auto integrity = history->check_integrity();
  if (!integrity) return one(Health::broken, integrity.error().message());
  if (!integrity->missing_references.empty()) {
    return missing_references(file.string(), integrity->missing_references);
  }
  if (std::string& damage = integrity->damage; !damage.empty()) {
    std::ranges::replace(damage, '\n', ' ');
    return one(Health::broken,
               file.string() + " is damaged: " + damage +
                   "; move it away to start a new one; 'sqlite3 FILE .recover' may save its rows");
  }
  return one(Health::ok, fmt::format("{}, integrity ok, {}", file.string(), known_runs(file).text));
}

HealthFinding examine_disk() {
  struct statvfs found {};
  const auto folder = current_folder();
  if (!folder) return {Health::broken, "disk", folder.error().message()};
  if (statvfs(folder->c_str(), &found) != 0) return {Health::warning, "disk", "cannot be examined"};
  const auto free_bytes =
      static_cast<std::int64_t>(found.f_bavail) * static_cast<std::int64_t>(found.f_frsize);
  constexpr std::int64_t kLittle = std::int64_t{1} << 30;
  return {free_bytes < kLittle ? Health::warning : Health::ok, "disk",
          format_bytes(free_bytes) + " free in " + folder->string()};
}

HealthFinding examine_locks() {
  auto folder = lock_folder();
  if (!folder) return {Health::broken, "locks", folder.error().message()};
  return {Health::ok, "locks", folder->string()};
}

// Adds what disturbs measurements on this machine, now and since `before`; at least a second must lie between, because
// the kernel counts in hundredths.
void add_disturbances(const Machine& machine, const MachineState& before,
                      std::chrono::steady_clock::time_point first_look,
                      std::vector<HealthFinding>& findings) {
  std::this_thread::sleep_until(first_look + std::chrono::seconds(1));
  const MachineState now = read_machine_state();
  std::vector<std::string> gpus = {""};  // what is no GPU's is found with none
  for (const Gpu& gpu : machine.gpus)
    gpus.push_back(gpu.uuid);
  const std::size_t others = findings.size();
  for (const std::string& gpu : gpus) {
    std::vector<MachineFinding> found = findings_at(now, gpu);
    std::ranges::move(findings_between(before, now, gpu), std::back_inserter(found));
    for (MachineFinding& one : found) {
      const bool is_of_gpu = one.subject == "GPU";
      if (is_of_gpu != gpu.empty()) {
        findings.push_back({Health::warning, std::move(one.subject), std::move(one.text)});
      }
    }
  }
  if (findings.size() == others) {
    findings.push_back({Health::ok, "disturbances", "none found during this command"});
  }
}

// The report, kept short: everything that is well is in one line, and of many warnings of one kind only the first few
// are shown.
std::string page_of(const std::vector<HealthFinding>& findings) {
  static constexpr std::array<std::string_view, 4> kPlain = {"memory", "16-bit arithmetic", "locks",
                                                             "disk"};
  constexpr std::size_t kMaxRows = 8;
  const auto is_plain = [](const HealthFinding& finding) {
    return std::ranges::find(kPlain, std::string_view(finding.subject)) != kPlain.end();
  };
  std::vector<std::vector<std::string>> rows;
  std::string subjects;
  std::string texts;
  std::size_t left_out = 0;
  for (const HealthFinding& finding : findings) {
    if (finding.health == Health::ok && is_plain(finding)) {
      subjects += (subjects.empty() ? "" : ", ") + finding.subject;
      texts += (texts.empty() ? "" : "; ") + finding.text;
    } else if (rows.size() < kMaxRows || finding.health == Health::broken) {
      rows.push_back({to_text(finding.health), finding.subject, finding.text});
    } else {
      ++left_out;
    }
  }
  if (!subjects.empty()) rows.push_back({"ok", "the rest", subjects + ": " + texts});
  std::string page = table_text(std::move(rows));
  if (left_out > 0) {
    page += fmt::format("and {} more warning{}: --json lists {}\n", left_out,
                        left_out == 1 ? "" : "s", left_out == 1 ? "it" : "them");
  }
  return page;
}

}  // namespace

int doctor(const std::filesystem::path& history_file, bool as_json) {
  const auto first_look = std::chrono::steady_clock::now();
  const MachineState before = read_machine_state();
  const Machine machine = detect_machine();
  const InstallationPaths paths = find_installation_paths();
  const std::filesystem::path history =
      history_file.empty() ? storage::History::default_path() : history_file;
  std::vector<HealthFinding> findings = {
      examine_processor(machine),
      {machine.memory_allowed_bytes < (std::int64_t{2} << 30) ? Health::warning : Health::ok,
       "memory", format_bytes(machine.memory_allowed_bytes) + " allowed"},
      examine_precision(machine),
      examine_gpu(machine),
      examine_trainer(paths, machine),
      examine_plugins(paths)};
  std::ranges::move(examine_history(history), std::back_inserter(findings));
  findings.push_back(examine_locks());
  findings.push_back(examine_disk());
  add_disturbances(machine, before, first_look, findings);
  bool is_broken = false;
  Json list = Json::array();
  for (const HealthFinding& finding : findings) {
    is_broken = is_broken || finding.health == Health::broken;
    list.push_back({{"subject", finding.subject},
                    {"health", to_text(finding.health)},
                    {"text", finding.text}});
  }
  if (as_json) {
    std::cout << to_line({{"machine", machine.to_json()}, {"findings", list}}) << "\n";
  } else {
    const auto here = current_folder();
    const KnownRuns known = known_runs(history);
    const auto steps =
        next_steps(here ? examine_folder(*here, sound_recipe_test(machine)) : FolderState{},
                   known.last, known.stopped);
    print_text(page_of(findings) + "\n" + next_steps_text(steps));
  }
  return is_broken ? kEnvironmentUnusable : kDone;
}

}  // namespace autotuned::daemon
