// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated again in every step costs page faults. Huge pages replace 512 faults by one, and other
// allocators keep memory that glibc returns to the system. (memory_malloc makes glibc keep it.)
#include <fstream>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Json;
using sdk::Situation;

constexpr const char* kTunables = "env.GLIBC_TUNABLES";
constexpr const char* kHugePages = "glibc.malloc.hugetlb=1";
constexpr const char* kAllocator = "memory.allocator";
constexpr const char* kMalloc = "memory.malloc";
constexpr double kMinShare = 0.005;
// The part of the kernel time that another allocator saves; the rest is other work or comes back in another form.
constexpr double kSavedShare = 0.5;

struct Signal {
  double share = 0.0;   // of the CPU time, in the kernel
  std::string reading;  // "the kernel takes ..."
};

// "always [madvise] never" → madvise; empty where the kernel does not tell.
std::string huge_pages(const std::string& root) {
  std::ifstream file(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(file, text);
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open);
  return close == std::string::npos ? std::string() : text.substr(open + 1, close - open - 1);
}

std::string allocator_now(const Situation& situation) {
  return situation.incumbent<std::string>(kAllocator).value_or("glibc");
}

// Why huge pages are not worth a trial; empty: they are.
std::string against_huge_pages(const Situation& situation, const Json& change) {
  std::string obstacle = situation.obstacle(kTunables);
  if (!obstacle.empty()) return obstacle;
  if (allocator_now(situation) != "glibc") {
    return "glibc's tunables do not apply to " + allocator_now(situation);
  }
  if (!situation.incumbent<std::string>(kTunables).value_or("").empty()) {
    return "glibc's tunables are already set";
  }
  // The folder is empty except in tests. The plugin reads the kernel's setting itself, because nothing else needs it.
  const std::string mode = huge_pages(situation.text("environment", "root"));
  if (mode == "always") return "the kernel already gives huge pages to all memory";
  if (mode != "madvise") return "the kernel gives no huge pages";
  if (situation.has_lost(change)) return "huge pages were tried and were not faster";
  return {};
}

std::string against_allocator(const Situation& situation, const char* name, const Json& change) {
  if (allocator_now(situation) == name) return std::string(kAllocator) + " is " + name;
  std::string obstacle = situation.obstacle(kAllocator, name);
  if (obstacle.empty() && situation.has_lost(change)) {
    return std::string(name) + " was tried and was not faster";
  }
  return obstacle;
}

// The change to this allocator. It also resets the knobs that only glibc supports.
Json change_to(const Situation& situation, const char* allocator) {
  Json change = {{kAllocator, allocator}};
  if (situation.incumbent<std::string>(kMalloc).value_or("default") != "default") {
    change[kMalloc] = "default";
  }
  return change;
}

void add(Answer& answer, const Situation& situation, const Signal& signal, const Json& change,
         std::string obstacle, const char* claim) {
  if (!obstacle.empty()) {
    // Several changes can have one obstacle.
    if (answer.none_because.find(obstacle) == std::string::npos)
      answer.none_because += (answer.none_because.empty() ? "" : "; ") + obstacle;
    return;
  }
  const double gain = sdk::gain_without(kSavedShare * signal.share);
  answer.add(change, situation.expected_gain(change, gain), signal.reading + "; " + claim,
             signal.share);
}

Answer propose(const Situation& situation) {
  if (situation.is_on_gpu())
    return sdk::none("the tensors of the step are in the memory of the GPU");
  const auto share = situation.metric("cpu.kernel_ratio");
  const auto faults = situation.metric("memory.page_faults_per_step");
  if (!share || !faults)
    return sdk::none("the profile does not say how many page faults there are and what they cost");
  if (*share < kMinShare) {
    return sdk::none("the kernel takes only " + sdk::percent(*share) + " of the CPU time");
  }
  const Signal signal{*share, "the kernel takes " + sdk::percent(*share) +
                                  " of the CPU time, with " + sdk::count_text(*faults) +
                                  " page faults in a step"};
  Answer answer;
  const Json huge = {{kTunables, kHugePages}};
  add(answer, situation, signal, huge, against_huge_pages(situation, huge),
      "a page of 2 MiB takes one fault instead of 512");
  for (const char* name : {"jemalloc", "tcmalloc"}) {
    const Json change = change_to(situation, name);
    add(answer, situation, signal, change, against_allocator(situation, name, change),
        "another allocator keeps freed memory for the next step");
  }
  if (!answer.candidates.empty()) answer.none_because.clear();
  return answer;
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("host_allocator", "1.1",
                 "Tries huge pages if the kernel offers them, and other allocators.",
                 autotuned::plugins::propose);
