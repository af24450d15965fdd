// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/timeline.hpp"

#include <functional>
#include <unordered_map>

namespace autotuned::profiler {
namespace {

struct NodeKey {
  std::uint64_t thread = 0;
  std::int64_t sequence = 0;

  friend bool operator==(const NodeKey&, const NodeKey&) = default;
};
struct NodeKeyHash {
  std::size_t operator()(const NodeKey& key) const {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;
    return std::hash<std::uint64_t>{}(key.thread * kGolden ^
                                      static_cast<std::uint64_t>(key.sequence));
  }
};
using Makers = std::unordered_map<NodeKey, TimelineEventIndex, NodeKeyHash>;

// The operator that began last, for each sequence number.
Makers makers_of(const Timeline& timeline) {
  Makers makers;
  for (std::size_t t = 0; t < timeline.threads.size(); ++t) {
    const ThreadTimeline& thread = timeline.threads[t];
    for (std::size_t i = 0; i < thread.events.size(); ++i) {
      const TimelineEvent& event = thread.events[i];
      if (event.kind != TimelineKind::operation || event.sequence < 0) continue;
      makers[{thread.logical_thread, event.sequence}] = {t, i};
    }
  }
  return makers;
}

}  // namespace

std::vector<BackwardLink> charge_backward(Timeline& timeline) {
  const Makers makers = makers_of(timeline);
  std::vector<BackwardLink> links;
  for (std::size_t t = 0; t < timeline.threads.size(); ++t) {
    auto& events = timeline.threads[t].events;
    // An event comes before those inside it.
    for (std::size_t i = 0; i < events.size(); ++i) {
      TimelineEvent& event = events[i];
      if (event.kind == TimelineKind::backward && event.sequence >= 0) {
        const auto maker = makers.find({event.forward_thread, event.sequence});
        if (maker != makers.end()) {
          links.push_back({maker->second, {t, i}});
          const auto& [thread, index] = maker->second;
          if (event.module == kNone) event.module = timeline.threads[thread].events[index].module;
        }
      }
      if (event.parent == kNone) continue;
      TimelineEvent& parent = events[event.parent];
      if (event.kind == TimelineKind::backward && parent.module == kNone) {
        parent.module = event.module;  // the engine's frame around the node
      }
      if (event.module == kNone) event.module = parent.module;
    }
  }
  return links;
}

std::string script_module_path(std::string_view hierarchy) {
  std::string path;
  // Each module is INSTANCE(TYPE)::METHOD; TOP is the script, SELF the same module again.
  while (!hierarchy.empty()) {
    const std::size_t open = hierarchy.find('(');
    if (open == std::string_view::npos) break;
    const std::size_t close = hierarchy.find(")::", open);
    if (close == std::string_view::npos) break;
    const std::string_view instance = hierarchy.substr(0, open);
    if (instance != "TOP" && instance != "SELF" && instance != "UNKNOWN_INSTANCE") {
      if (!path.empty()) path += '.';
      path += instance;
    }
    const std::size_t next = hierarchy.find('.', close);
    if (next == std::string_view::npos) break;
    hierarchy.remove_prefix(next + 1);
  }
  return path;
}

}  // namespace autotuned::profiler
