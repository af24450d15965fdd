// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/stacks.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "profiler/analysis/events/forward_threads.hpp"
#include "profiler/analysis/events/launches.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;
using traces::PythonCall;
using traces::Trace;

constexpr const char* kBackward = "(backward)";

class StackFinder {
 public:
  explicit StackFinder(const Trace& trace)
      : trace_(trace), events_(trace.events), frame_of_call_(trace.python_calls.size(), kNoStack) {
    // Ids count up from 1; others cannot be used.
    frame_of_id_.resize(2 * trace.python_calls.size() + 1024, kNoStack);
    stacks_.of_row.resize(events_.size(), kNoStack);
    for (Row row = 0; row < events_.size(); ++row) {
      if (events_.kind[row] == EventKind::cpu_operator) operators_.push_back(row);
    }
    std::ranges::stable_sort(operators_, [&](Row a, Row b) {
      if (events_.thread[a] != events_.thread[b]) return events_.thread[a] < events_.thread[b];
      if (events_.start_ns[a] != events_.start_ns[b]) {
        return events_.start_ns[a] < events_.start_ns[b];
      }
      return events_.length_ns[a] > events_.length_ns[b];
    });
  }

  Stacks find() {
    follow_python();
    read_texts();
    go_backward();
    stacks_.has_any =
        std::ranges::any_of(stacks_.of_row, [](std::uint32_t frame) { return frame != kNoStack; });
    return std::move(stacks_);
  }

 private:
  // The calls and operators of a thread together, by time.
  void follow_python() {
    const std::vector<std::uint32_t> order = python_calls_in_order(trace_);
    std::size_t next = 0;
    for (const Row row : operators_) {
      const std::pair here(events_.thread[row], events_.start_ns[row]);
      while (next < order.size()) {
        const PythonCall& call = trace_.python_calls[order[next]];
        if (std::pair(call.thread, call.start_ns) > here) break;
        enter(order[next++]);
      }
      close_until(here.first, here.second);
      if (!open_.empty()) stacks_.of_row[row] = frame_of_call_[open_.back()];
    }
  }

  void enter(std::uint32_t index) {
    const PythonCall& call = trace_.python_calls[index];
    close_until(call.thread, call.start_ns);
    std::uint32_t caller = open_.empty() ? kNoStack : frame_of_call_[open_.back()];
    // With rounded clocks neighbours may overlap, so the id of the caller decides, if there is one.
    if (const std::uint32_t* known = place_of(call.caller); known && *known != kNoStack) {
      caller = *known;
    }
    const bool is_frame = !is_built_in(trace_.names.text(call.name));
    frame_of_call_[index] = is_frame ? frame(caller, own_name(call.name)) : caller;
    if (std::uint32_t* place = place_of(call.id)) *place = frame_of_call_[index];
    open_.push_back(index);
  }

  void close_until(std::uint32_t thread, std::int64_t time_ns) {
    while (!open_.empty()) {
      const PythonCall& call = trace_.python_calls[open_.back()];
      if (call.thread == thread && call.start_ns + call.length_ns > time_ns) break;
      open_.pop_back();
    }
  }

  void read_texts() {
    std::unordered_map<NameId, std::uint32_t> frame_of_text;
    for (const traces::CallStackText& stack : trace_.call_stacks) {
      if (stacks_.of_row[stack.row] != kNoStack) continue;
      const auto [found, is_new] = frame_of_text.try_emplace(stack.text, kNoStack);
      if (is_new) found->second = frame_of(trace_.names.text(stack.text));
      stacks_.of_row[stack.row] = found->second;
    }
  }

  std::uint32_t frame_of(std::string_view text) {
    std::vector<std::string_view> functions;  // the innermost ones first
    while (!text.empty() && functions.size() < std::size_t{kDeepestCall}) {
      const std::size_t end = std::min(text.find(';'), text.size());
      if (end > 0) functions.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    std::uint32_t innermost = kNoStack;
    for (auto function = functions.rbegin(); function != functions.rend(); ++function)
      innermost = frame(innermost, stacks_.names.intern(*function));
    return innermost;
  }

  void go_backward() {
    struct Forward {
      std::int64_t start_ns;
      std::uint32_t frame;
    };
    // If several operators have a number, the last one created the node of the backward pass.
    std::unordered_map<CountedOperator, Forward, CountedOperatorHash> forward_of;
    for (const Row row : operators_) {
      const std::int64_t sequence = events_.sequence[row];
      if (sequence == traces::kNoId || events_.is_backward[row]) continue;
      if (stacks_.of_row[row] == kNoStack) continue;
      const Forward forward{events_.start_ns[row], stacks_.of_row[row]};
      const auto [found, is_new] = forward_of.try_emplace({events_.thread[row], sequence}, forward);
      if (!is_new && found->second.start_ns <= forward.start_ns) found->second = forward;
    }
    if (forward_of.empty()) return;
    const auto threads = forward_threads(events_);
    std::uint32_t stack = kNoStack;
    Row root = kNoRow;  // the open root
    for (const Row row : operators_) {
      const bool is_inside = root != kNoRow && events_.thread[row] == events_.thread[root] &&
                             events_.start_ns[row] < events_.end_ns(root);
      if (!is_inside) {
        root = kNoRow;
        if (!events_.is_backward[row]) continue;
        const auto thread = threads.find(events_.forward_thread[row]);
        if (thread == threads.end()) continue;
        const auto forward = forward_of.find({thread->second, events_.sequence[row]});
        if (forward == forward_of.end()) continue;
        root = row;
        stack = frame(forward->second.frame, stacks_.names.intern(kBackward));
      }
      stacks_.of_row[row] = stack;
    }
  }

  std::uint32_t frame(std::uint32_t caller, NameId name) {
    const int depth = caller == kNoStack ? 0 : stacks_.frames[caller].depth + 1;
    if (depth > kDeepestCall) return caller;
    const auto [found, is_new] = frame_of_key_.try_emplace(
        (std::uint64_t{caller} << 32U) | name, static_cast<std::uint32_t>(stacks_.frames.size()));
    if (is_new) stacks_.frames.push_back({.name = name, .caller = caller, .depth = depth});
    return found->second;
  }

  NameId own_name(NameId name) {
    const auto [found, is_new] = own_names_.try_emplace(name, 0);
    if (is_new) found->second = stacks_.names.intern(trace_.names.text(name));
    return found->second;
  }

  std::uint32_t* place_of(std::int32_t id) {
    if (id < 0 || static_cast<std::size_t>(id) >= frame_of_id_.size()) return nullptr;
    return &frame_of_id_[static_cast<std::size_t>(id)];
  }

  const Trace& trace_;
  const Events& events_;
  Stacks stacks_;
  std::vector<Row> operators_;  // by thread and time, whatever holds another before it
  std::vector<std::uint32_t> open_;
  std::vector<std::uint32_t> frame_of_call_;
  std::vector<std::uint32_t> frame_of_id_;
  std::unordered_map<std::uint64_t, std::uint32_t> frame_of_key_;
  std::unordered_map<NameId, NameId> own_names_;
};

}  // namespace

std::vector<std::uint32_t> python_calls_in_order(const Trace& trace) {
  const std::vector<PythonCall>& calls = trace.python_calls;
  std::vector<std::uint32_t> order(calls.size());
  for (std::uint32_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
    if (calls[a].thread != calls[b].thread) return calls[a].thread < calls[b].thread;
    if (calls[a].start_ns != calls[b].start_ns) return calls[a].start_ns < calls[b].start_ns;
    return calls[a].length_ns > calls[b].length_ns;
  });
  return order;
}

bool is_built_in(const std::string& function) {
  return function.starts_with("<built-in ");
}

Stacks stacks_of(const Trace& trace) {
  if (trace.python_calls.empty() && trace.call_stacks.empty()) return {};
  return StackFinder(trace).find();
}

std::string stack_text(const Stacks& stacks, std::uint32_t frame, int most_frames) {
  std::string text;
  for (int left = most_frames; frame != kNoStack; frame = stacks.frames[frame].caller) {
    if (!text.empty()) text += " ← ";
    if (left-- == 0) return text + "…";
    text += stacks.names.text(stacks.frames[frame].name);
  }
  return text;
}

}  // namespace autotuned::analysis
