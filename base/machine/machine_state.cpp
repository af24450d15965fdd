// SPDX-License-Identifier: Apache-2.0
#include "base/machine/machine_state.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/folder_names.hpp"
#include "base/machine/cgroup.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/system_text.hpp"
#include "base/text.hpp"

namespace autotuned {
namespace {

constexpr double kMinInterval = 0.5;  // seconds: the kernel counts hundredths
constexpr double kMuchStolen = 0.01;
constexpr double kMuchSlowed = 0.01;
constexpr std::int64_t kMuchSwapped = 1 << 20;

std::optional<std::int64_t> read_number(const std::string& file) {
  std::istringstream text(system_text(file));
  std::int64_t number = 0;
  if (text >> number) return number;
  return std::nullopt;
}

// Returns the number that follows a name at the start of a line.
std::optional<std::int64_t> number_behind(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::int64_t number = 0;
    if (words >> first && first == name && words >> number) return number;
  }
  return std::nullopt;
}

double seconds_of(std::int64_t ticks) {
  static const auto kPerSecond = static_cast<double>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  return static_cast<double>(ticks) / kPerSecond;
}

// Lines "cpu3 user nice system idle iowait irq softirq steal …", in ticks.
std::optional<MachineState::CpuTime> read_cpu_time(const std::string& root,
                                                   const std::vector<int>& cpus) {
  std::set<std::string> wanted;
  for (const int cpu : cpus)
    wanted.insert("cpu" + std::to_string(cpu));
  MachineState::CpuTime time;
  bool is_known = false;
  std::istringstream lines(system_text(root + "/proc/stat"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t user = 0;
    std::int64_t nice = 0;
    std::int64_t system = 0;
    std::int64_t idle = 0;
    std::int64_t waiting = 0;
    std::int64_t interrupts = 0;
    std::int64_t soft_interrupts = 0;
    std::int64_t stolen = 0;
    if (!(words >> name) || !wanted.contains(name)) continue;
    if (!(words >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >>
          stolen)) {
      continue;
    }
    is_known = true;
    time.busy += seconds_of(user + nice + system + interrupts + soft_interrupts);
    time.idle += seconds_of(idle + waiting);
    time.stolen += seconds_of(stolen);
  }
  if (!is_known) return std::nullopt;
  return time;
}

struct ProcessTime {
  int parent = 0;
  double seconds = 0.0;  // CPU time of the process and of its children that have ended
};

// /proc/N/stat: "N (name) state parent …"; the name may contain any characters.
std::optional<ProcessTime> read_process_time(const std::string& file) {
  constexpr int kBetween = 9;  // number of fields between the parent and the times
  const std::string text = system_text(file);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  std::string word;
  ProcessTime time;
  if (!(words >> word >> time.parent)) return std::nullopt;
  for (int i = 0; i < kBetween; ++i)
    words >> word;
  std::int64_t user = 0;
  std::int64_t system = 0;
  std::int64_t children_user = 0;
  std::int64_t children_system = 0;
  if (!(words >> user >> system >> children_user >> children_system)) return std::nullopt;
  time.seconds = seconds_of(user + system + children_user + children_system);
  return time;
}

double read_own_cpu_time(const std::string& root, std::vector<int> own) {
  std::istringstream self(system_text(root + "/proc/self/stat"));
  int process_id = 0;
  if (!(self >> process_id)) return 0.0;
  own.push_back(process_id);
  const auto is_own = [&own](int process) { return std::ranges::find(own, process) != own.end(); };
  std::map<int, ProcessTime> all;
  const std::string processes = root + "/proc";
  FolderNames names(processes.c_str());
  while (const auto name = names.next()) {
    int process = 0;
    const char* const end = name->data() + name->size();
    if (std::from_chars(name->data(), end, process).ptr != end) continue;
    const auto time = read_process_time(fmt::format("{}/{}/stat", processes, process));
    if (time) all[process] = *time;
  }
  double seconds = 0.0;
  for (const auto& [process, time] : all) {
    int ancestor = process;
    // No chain is longer than the number of processes. This ends the loop even if a process ended and its number was reused.
    for (std::size_t i = 0; i < all.size() && !is_own(ancestor) && all.contains(ancestor); ++i)
      ancestor = all.at(ancestor).parent;
    if (is_own(ancestor)) seconds += time.seconds;
  }
  return seconds;
}

const GpuState* find_gpu(const MachineState& state, const std::string& uuid) {
  const auto found = std::ranges::find(state.gpus, uuid, &GpuState::uuid);
  return found == state.gpus.end() || uuid.empty() ? nullptr : &*found;
}

void add_gpu_findings(const GpuState& before, const GpuState& after, double interval,
                      std::vector<MachineFinding>& findings) {
  using Time = std::optional<std::chrono::nanoseconds>;
  // Whether the driver reports the value at all.
  const auto slowed = [&](const Time& first, const Time& last, const char* why,
                          const char* remedy) {
    if (!first || !last) return false;
    const double share = std::chrono::duration<double>(*last - *first).count() / interval;
    if (share < kMuchSlowed) return true;
    findings.push_back(
        {"GPU", fmt::format("{} was slowed down by {} for {} of the time; {}", after.name, why,
                            format_share(std::min(share, 1.0)), remedy)});
    return true;
  };
  const bool tells_heat =
      slowed(before.slowed_by_heat, after.slowed_by_heat, "its temperature", "check its cooling");
  if (!tells_heat && after.is_hot) {
    findings.push_back({"GPU", after.name + " is slowed down by its temperature, and its driver "
                                            "does not report for how long; check its cooling"});
  }
  slowed(before.slowed_by_power, after.slowed_by_power, "its power limit",
         "`nvidia-smi -q -d POWER` shows the limit");
}

}  // namespace

MachineState read_machine_state_below(const std::string& root, const std::vector<int>& own) {
  MachineState state;
  const std::vector<int> cpus = allowed_cpus_below(root);
  state.cpus = static_cast<int>(cpus.size());
  for (const int cpu : cpus) {
    const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu{}/", root, cpu);
    std::istringstream governor(system_text(folder + "cpufreq/scaling_governor"));
    if (std::string name; governor >> name) ++state.governors[name];
    for (const char* file : {"core_throttle_count", "package_throttle_count"}) {
      const auto events = read_number(folder + "thermal_throttle/" + file);
      if (events) state.heat_events = state.heat_events.value_or(0) + *events;
    }
  }
  const std::string memory = system_text(root + "/proc/meminfo");
  state.memory_available_bytes = number_behind(memory, "MemAvailable:").value_or(0) * 1024;
  if (const auto left = read_cgroup_memory_left(root);
      left && (state.memory_available_bytes == 0 || *left < state.memory_available_bytes)) {
    state.memory_available_bytes = *left;
  }
  state.cpu_time = read_cpu_time(root, cpus);
  state.own_cpu_time = read_own_cpu_time(root, own);
  const std::string counts = system_text(root + "/proc/vmstat");
  const auto in = number_behind(counts, "pswpin");
  const auto out = number_behind(counts, "pswpout");
  if (in && out) state.swapped_bytes = (*in + *out) * ::sysconf(_SC_PAGESIZE);
  state.quota_stops = read_cgroup_stops(root);
  return state;
}

MachineState read_machine_state() {
  MachineState state = read_machine_state_below("");
  state.gpus = read_gpu_states("libnvidia-ml.so.1");
  return state;
}

std::optional<double> other_work_ratio(const MachineState& before, const MachineState& after) {
  if (!before.cpu_time || !after.cpu_time || after.cpus <= 0) return std::nullopt;
  const double busy = after.cpu_time->busy - before.cpu_time->busy;
  const double idle = after.cpu_time->idle - before.cpu_time->idle;
  const double stolen = after.cpu_time->stolen - before.cpu_time->stolen;
  const double all = busy + idle + stolen;
  if (all < kMinInterval * after.cpus) return std::nullopt;
  const double own = after.own_cpu_time - before.own_cpu_time;
  return std::clamp((busy - own + stolen) / all, 0.0, 1.0);
}

std::vector<MachineFinding> findings_at(const MachineState& state, const std::string& gpu) {
  std::vector<MachineFinding> findings;
  std::vector<std::string> governed;
  for (const auto& [governor, cpus] : state.governors) {
    if (governor == "performance") continue;
    governed.push_back(fmt::format("'{}' ({})", governor, format_counted(cpus, "CPU")));
  }
  if (!governed.empty()) {
    findings.push_back(
        {"clock", fmt::format("the CPU frequency governor is {}, so clocks and rates change with "
                              "the load; `cpupower frequency-set -g performance` keeps clocks high",
                              fmt::join(governed, " and "))});
  }
  const GpuState* const used = find_gpu(state, gpu);
  if (used == nullptr) return findings;
  if (used->processes > 0) {
    findings.push_back({"GPU", fmt::format("other processes already compute on {} (processes: {}), "
                                           "so rates depend on their load; `nvidia-smi` lists them",
                                           used->name, used->processes)});
  }
  if (used->is_hot) {
    findings.push_back(
        {"GPU", used->name + " is slowed down by its temperature; check its cooling"});
  }
  if (used->is_held_by_power) {
    findings.push_back(
        {"GPU", used->name + " is slowed down by the power brake of its power supply"});
  }
  return findings;
}

std::vector<MachineFinding> findings_between(const MachineState& before, const MachineState& after,
                                             const std::string& gpu) {
  std::vector<MachineFinding> findings;
  if (!before.cpu_time || !after.cpu_time) return findings;
  const double busy = after.cpu_time->busy - before.cpu_time->busy;
  const double idle = after.cpu_time->idle - before.cpu_time->idle;
  const double stolen = after.cpu_time->stolen - before.cpu_time->stolen;
  const double all = busy + idle + stolen;
  const int cpus = after.cpus;
  const double interval = cpus > 0 ? all / cpus : 0.0;
  if (interval < kMinInterval) return findings;

  const double others = busy - (after.own_cpu_time - before.own_cpu_time);
  if (others > kLoadThatMatters * all) {
    findings.push_back(
        {"load", fmt::format("other programs used {:.1f} of the {} during the measurement, so "
                             "rates are lower and trials take longer or end without a verdict",
                             others / interval, format_counted(cpus, "CPU"))});
  }
  if (stolen > kMuchStolen * all) {
    findings.push_back(
        {"hypervisor", fmt::format("the hypervisor gave {} of the CPU time to other machines; a "
                                   "dedicated machine gives steadier rates",
                                   format_share(stolen / all))});
  }
  const std::int64_t heat = after.heat_events.value_or(0) - before.heat_events.value_or(0);
  if (before.heat_events && heat > 0) {
    findings.push_back(
        {"heat", fmt::format("the temperature of CPUs slowed them down {}; check their cooling",
                             format_counted(heat, "time"))});
  }
  const std::int64_t swapped = after.swapped_bytes.value_or(0) - before.swapped_bytes.value_or(0);
  if (before.swapped_bytes && swapped > kMuchSwapped) {
    findings.push_back(
        {"swap", fmt::format("{} were written to or read from swap, because the running programs "
                             "need more memory than the machine has",
                             format_bytes(swapped))});
  }
  if (before.quota_stops && after.quota_stops) {
    const auto stops = std::chrono::duration<double>(*after.quota_stops - *before.quota_stops);
    if (stops.count() > kMuchSlowed * interval) {
      findings.push_back(
          {"quota",
           fmt::format(
               "the CPU quota of the control group stopped its processes for {:.1f} of {:.1f} s, "
               "summed over its CPUs; use no more threads than the quota has CPUs",
               stops.count(), interval)});
    }
  }
  const GpuState* const first = find_gpu(before, gpu);
  const GpuState* const last = find_gpu(after, gpu);
  if (first != nullptr && last != nullptr) add_gpu_findings(*first, *last, interval, findings);
  return findings;
}

}  // namespace autotuned
