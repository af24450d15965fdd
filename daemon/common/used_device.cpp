// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/used_device.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/text.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::string_view kCpu = "cpu";
constexpr std::string_view kCuda = "cuda";
constexpr std::string_view kPart = "MIG-";

// The UUID that one entry of CUDA_VISIBLE_DEVICES stands for; empty: none.
std::string gpu_named(std::string_view entry, const std::vector<Gpu>& gpus) {
  if (entry.starts_with(kPart)) return std::string(entry);
  if (entry.starts_with("GPU-")) {
    // As many characters as it takes to tell it from the others.
    const auto fits = [&](const Gpu& gpu) { return gpu.uuid.starts_with(entry); };
    const auto found = std::ranges::find_if(gpus, fits);
    return std::ranges::count_if(gpus, fits) == 1 ? found->uuid : "";
  }
  std::size_t number = 0;
  const char* const end = entry.data() + entry.size();
  const auto [stop, error] = std::from_chars(entry.data(), end, number);
  const bool is_number = error == std::errc() && stop == end && !entry.empty();
  return is_number && number < gpus.size() ? gpus[number].uuid : "";
}

bool has_entries(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::directory_iterator(folder, ignored) !=
         std::filesystem::directory_iterator();
}

}  // namespace

std::vector<std::string> visible_gpus(const std::vector<Gpu>& gpus, const char* visible) {
  std::vector<std::string> uuids;
  if (visible == nullptr) {
    for (const Gpu& gpu : gpus)
      uuids.push_back(gpu.uuid);
    return uuids;
  }
  std::string_view rest = visible;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    std::string uuid = gpu_named(trimmed(entry), gpus);
    if (uuid.empty() || std::ranges::find(uuids, uuid) != uuids.end()) break;
    uuids.push_back(std::move(uuid));
  }
  return uuids;
}

std::string device_of(const recipes::Recipe& recipe, const Machine& machine) {
  if (recipe.device == kCpu) return std::string(kCpu);
  const std::vector<std::string> gpus =
      visible_gpus(machine.gpus, std::getenv("CUDA_VISIBLE_DEVICES"));
  std::size_t index = 0;
  if (recipe.device.starts_with("cuda:")) index = std::stoul(recipe.device.substr(5));
  return index < gpus.size() ? gpus[index] : std::string(kCpu);
}

std::vector<std::string> devices_of(const recipes::Recipe& recipe, const Machine& machine) {
  const auto ranks = static_cast<std::size_t>(recipe.train.ranks);
  std::vector<std::string> gpus = visible_gpus(machine.gpus, std::getenv("CUDA_VISIBLE_DEVICES"));
  // Where there are too few, the trainer says so.
  if (ranks == 1 || recipe.device == kCpu || gpus.size() < ranks)
    return {device_of(recipe, machine)};
  gpus.resize(ranks);
  return gpus;
}

std::string device_told(const Json& facts, const Machine& machine, const std::string& expected) {
  const std::string device = get_string(facts, "device").value_or("");
  if (!device.starts_with(kCuda)) return std::string(kCpu);
  const std::string uuid = get_string(facts, "device_uuid").value_or("");
  if (uuid.empty()) return expected == kCpu ? device : expected;
  const std::string whole = "GPU-" + uuid;
  const bool is_whole = std::ranges::find(machine.gpus, whole, &Gpu::uuid) != machine.gpus.end();
  return is_whole ? whole : std::string(kPart) + uuid;
}

std::vector<std::string> devices_told(const Json& facts, const Machine& machine,
                                      const std::vector<std::string>& expected) {
  const Json& uuids = member(facts, "device_uuids");
  if (!uuids.is_array() || uuids.empty()) return {device_told(facts, machine, expected.front())};
  std::vector<std::string> told;
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    const Json one = {{"device", std::string(kCuda) + ":" + std::to_string(rank)},
                      {"device_uuid", uuids[rank]}};
    told.push_back(
        device_told(one, machine, rank < expected.size() ? expected[rank] : std::string(kCpu)));
  }
  return told;
}

std::vector<MachineFinding> device_findings(const recipes::Recipe& recipe, const Json& hello,
                                            const Json& facts, const Machine& machine,
                                            bool has_gpu) {
  const std::string device = get_string(facts, "device").value_or("");
  if (device.starts_with(kCuda) && machine.gpus.empty()) {
    return {{"GPU", "the job is on " + device +
                        ", which the driver's management library does not "
                        "list (" +
                        machine.gpu_reason +
                        "): knobs that need a GPU are left out, and other programs on it are not "
                        "seen; a container needs the driver's utility libraries as well"}};
  }
  if (device.starts_with(kCuda) || recipe.device != "auto" || !has_gpu) return {};
  const std::string name = machine.gpus.empty() ? "an NVIDIA GPU" : machine.gpus.front().name;
  std::string why = get_string(hello, "cuda_reason").value_or("");
  if (why.empty()) why = "the trainer does not say why";
  return {{"GPU", "the job is on the CPU although this machine has " + name + ": " + why +
                      "; `autotuned doctor` says more, and device: cuda in the recipe refuses to "
                      "run without it"}};
}

bool is_gpu_there(const Machine& machine, const std::string& root) {
  if (!machine.gpus.empty()) return true;
  std::error_code ignored;
  return std::filesystem::exists(root + "/dev/nvidia0", ignored) ||
         has_entries(root + "/proc/driver/nvidia/gpus");
}

}  // namespace autotuned::daemon
