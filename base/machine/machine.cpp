// SPDX-License-Identifier: Apache-2.0
#include "base/machine/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/digest.hpp"
#include "base/machine/allocator_library.hpp"
#include "base/machine/cgroup.hpp"
#include "base/machine/nvml.hpp"
#include "base/machine/system_text.hpp"

namespace autotuned {
namespace {

// Sorted, as has_cpu_feature() and the header promise.
constexpr std::array<std::string_view, 6> kFeatures = {"amx_bf16",    "amx_tile", "avx2",
                                                       "avx512_bf16", "avx512f",  "f16c"};

// Returns the value of the first "name : value" line.
std::string field(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t name_end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    if (std::string_view(line).substr(0, name_end + 1) != name) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

// "0-3,8" → 0 1 2 3 8. Parts that cannot be read are left out.
std::vector<int> parse_cpu_list(const std::string& text) {
  constexpr int kMaxCpus = 1 << 16;
  std::vector<int> cpus;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0;
    const char* end = part.data() + part.size();
    auto [after, error] = std::from_chars(part.data(), end, first);
    int last = first;
    if (error == std::errc() && after != end && *after == '-') {
      error = std::from_chars(after + 1, end, last).ec;
    }
    if (error != std::errc() || first < 0 || last >= kMaxCpus) continue;
    for (int cpu = first; cpu <= last; ++cpu)
      cpus.push_back(cpu);
  }
  return cpus;
}

int count_cores(const std::string& root, const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string topology =
        fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/", root, cpu);
    const std::string siblings = system_text(topology + "thread_siblings_list");
    cores.insert(siblings.empty() ? fmt::format("cpu {}", cpu) : siblings);
  }
  return static_cast<int>(cores.size());
}

std::int64_t kib_field(const std::string& text, std::string_view name) {
  std::int64_t kib = 0;
  std::istringstream value(field(text, name));
  return value >> kib ? kib * 1024 : 0;
}

}  // namespace

bool Machine::has_cpu_feature(std::string_view name) const {
  return std::ranges::binary_search(cpu_features, name);
}

Json Machine::to_json() const {
  Json list = Json::array();
  for (const Gpu& gpu : gpus) {
    list.push_back({{"uuid", gpu.uuid},
                    {"name", gpu.name},
                    {"compute_capability", fmt::format("{}.{}", gpu.compute_capability_major,
                                                       gpu.compute_capability_minor)},
                    {"memory_bytes", gpu.memory_bytes}});
  }
  return {{"cpu_model", cpu_model},
          {"cpus_allowed", cpus_allowed},
          {"physical_cores", physical_cores},
          {"memory_allowed_bytes", memory_allowed_bytes},
          {"cpu_features", cpu_features},
          {"gpus", std::move(list)},
          {"gpu_driver", gpu_driver},
          {"gpu_reason", gpu_reason},
          {"kernel", kernel}};
}

std::string Machine::key(std::string_view libtorch_version) const {
  // A new kernel reserves a little more or less memory. Whole GiB keep the key the same.
  const double memory_gib = std::round(static_cast<double>(memory_allowed_bytes) / (1U << 30U));
  Json parts = {cpu_model, cpus_allowed, memory_gib, gpu_driver.substr(0, gpu_driver.find('.')),
                libtorch_version};
  for (const Gpu& gpu : gpus)
    parts.push_back(gpu.name);
  return sha256_hex(to_line(parts)).substr(0, 16);
}

std::span<const std::string_view> known_cpu_features() {
  return kFeatures;
}

std::vector<int> allowed_cpus_below(const std::string& root) {
  return parse_cpu_list(field(system_text(root + "/proc/self/status"), "Cpus_allowed_list"));
}

Machine detect_machine_below(const std::string& root) {
  Machine machine;
  const std::string cpuinfo = system_text(root + "/proc/cpuinfo");
  machine.cpu_model = field(cpuinfo, "model name");
  if (machine.cpu_model.empty()) machine.cpu_model = "unknown CPU";
  std::istringstream flags(field(cpuinfo, "flags"));
  std::set<std::string, std::less<>> known;
  for (std::string flag; flags >> flag;) {
    if (std::ranges::binary_search(kFeatures, flag)) known.insert(flag);
  }
  machine.cpu_features.assign(known.begin(), known.end());

  const CgroupLimits limits = read_cgroup_limits(root);
  const std::vector<int> cpus = allowed_cpus_below(root);
  machine.cpus_allowed = std::max(1, static_cast<int>(cpus.size()));
  machine.physical_cores = std::max(1, count_cores(root, cpus));
  if (limits.cpus) {
    const double quota = std::max(1.0, std::ceil(*limits.cpus));
    machine.cpus_allowed = static_cast<int>(std::min<double>(machine.cpus_allowed, quota));
  }
  machine.physical_cores = std::min(machine.physical_cores, machine.cpus_allowed);

  machine.memory_allowed_bytes = kib_field(system_text(root + "/proc/meminfo"), "MemTotal");
  if (limits.memory_bytes) {
    machine.memory_allowed_bytes = std::min(machine.memory_allowed_bytes, *limits.memory_bytes);
  }
  machine.kernel = fmt::format("{} {}", system_text(root + "/proc/sys/kernel/ostype"),
                               system_text(root + "/proc/sys/kernel/osrelease"));
  machine.gpu_reason = "not searched for";
  return machine;
}

Machine detect_machine() {
  Machine machine = detect_machine_below("");
  NvmlReport report = read_nvml("libnvidia-ml.so.1");
  machine.gpus = std::move(report.gpus);
  machine.gpu_driver = std::move(report.driver);
  machine.gpu_reason = std::move(report.reason);
  machine.allocators = allocators_here();
  return machine;
}

}  // namespace autotuned
