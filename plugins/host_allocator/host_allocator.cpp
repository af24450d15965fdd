// SPDX-License-Identifier: Apache-2.0
// Memory that is asked for anew in every step costs page faults. Huge pages make one of 512; another
// allocator may keep what glibc returns. (memory_malloc makes glibc keep it.)
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kTunables = "env.GLIBC_TUNABLES";
constexpr const char* kHugePages = "glibc.malloc.hugetlb=1";
constexpr const char* kPreload = "env.LD_PRELOAD";
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

// Where the system keeps its own libraries, of each allocator the first that is there.
std::vector<std::string> find_allocators(const std::string& root) {
  constexpr std::array kFolders = {"/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/",
                                   "/usr/lib64/", "/usr/lib/"};
  constexpr std::array<std::array<const char*, 2>, 2> kLibraries = {
      {{"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}, {"libjemalloc.so.2", "libjemalloc.so.1"}}};
  std::vector<std::string> found;
  for (const auto& names : kLibraries) {
    const std::size_t before = found.size();
    for (const std::string name : names) {
      for (const std::string folder : kFolders) {
        std::error_code ignored;
        const bool is_there = std::filesystem::is_regular_file(root + folder + name, ignored);
        if (is_there && found.size() == before) found.push_back(folder + name);
      }
    }
  }
  return found;
}

class Search {
 public:
  Search(const Situation& situation, double share, std::string evidence)
      : situation_(situation), share_(share), evidence_(std::move(evidence)) {}

  void consider(const char* knob, const std::string& value, const std::string& remark) {
    if (situation_.incumbent<std::string>(knob).value_or("") == value) return;
    const sdk::Json change = {{knob, value}};
    if (situation_.has_lost(change)) return;
    answer_.add(change, situation_.expected_gain(change, sdk::gain_without(kSavedShare * share_)),
                evidence_ + remark, share_);
  }
  Answer finish() {
    return answer_.candidates.empty() ? sdk::none("everything there is was tried or is set")
                                      : std::move(answer_);
  }

 private:
  const Situation& situation_;
  double share_;
  std::string evidence_;
  Answer answer_;
};

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kTunables);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.is_on_gpu()) return sdk::none("the tensors of the step are in the GPU's memory");
  const auto share = situation.metric("cpu.kernel_ratio");
  const auto faults = situation.metric("memory.page_faults_per_step");
  if (!share || !faults) return sdk::none("the profile does not say what page faults cost");
  if (*share < kLeastShare) {
    return sdk::none("the kernel takes only " + sdk::percent(*share) + " of the CPU time");
  }
  Search search(situation, *share,
                "the kernel takes " + sdk::percent(*share) + " of the CPU time, with " +
                    std::to_string(static_cast<long long>(*faults)) + " page faults in a step; ");
  // Not empty in tests only: the machine is looked at here, because nobody else needs to know.
  const std::string root = situation.text("environment", "root");
  // With "always" they are there without asking, with "never" asking is in vain.
  if (huge_pages(root) == "madvise") {
    search.consider(kTunables, kHugePages, "a page of 2 MiB takes one fault instead of 512");
  }
  if (situation.incumbent<std::string>(kPreload).value_or("").empty()) {
    for (const std::string& library : find_allocators(root)) {
      search.consider(kPreload, library, "this library keeps freed memory longer");
    }
  }
  return search.finish();
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("host_allocator", "1.0",
                 "Tries huge pages and the allocators that this machine has.",
                 autotuned::plugins::propose);
