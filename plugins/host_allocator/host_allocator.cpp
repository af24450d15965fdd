// SPDX-License-Identifier: Apache-2.0
// Memory that is asked for anew in every step costs page faults. Huge pages make one of 512.
// (memory_malloc makes glibc keep what it would return.)
#include <fstream>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kTunables = "env.GLIBC_TUNABLES";
constexpr const char* kHugePages = "glibc.malloc.hugetlb=1";
constexpr double kLeastShare = 0.005;
// Of the time in the kernel; the rest is other work or comes back in another form.
constexpr double kSavedShare = 0.5;

// "always [madvise] never" → madvise; empty where the kernel does not tell.
std::string huge_pages(const std::string& root) {
  std::ifstream file(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(file, text);
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open);
  return close == std::string::npos ? std::string() : text.substr(open + 1, close - open - 1);
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kTunables);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.is_on_gpu()) return sdk::none("the tensors of the step are in the GPU's memory");
  if (!situation.incumbent<std::string>(kTunables).value_or("").empty()) {
    return sdk::none("glibc's tunables are set already");
  }
  const auto share = situation.metric("cpu.kernel_ratio");
  const auto faults = situation.metric("memory.page_faults_per_step");
  if (!share || !faults) return sdk::none("the profile does not say what page faults cost");
  if (*share < kLeastShare) {
    return sdk::none("the kernel takes only " + sdk::percent(*share) + " of the CPU time");
  }
  // Not empty in tests only: the machine is looked at here, because nobody else needs to know.
  const std::string mode = huge_pages(situation.text("environment", "root"));
  if (mode == "always") return sdk::none("the kernel gives huge pages without being asked");
  if (mode != "madvise") return sdk::none("the kernel gives no huge pages");
  const sdk::Json change = {{kTunables, kHugePages}};
  if (situation.has_lost(change)) return sdk::none("huge pages were tried and were not faster");
  return sdk::propose_one(
      change, situation.expected_gain(change, sdk::gain_without(kSavedShare * *share)),
      "the kernel takes " + sdk::percent(*share) + " of the CPU time, with " +
          std::to_string(static_cast<long long>(*faults)) +
          " page faults in a step; a page of 2 MiB takes one fault instead of 512",
      *share);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("host_allocator", "1.0", "Asks for huge pages where the kernel gives them.",
                 autotuned::plugins::propose);
