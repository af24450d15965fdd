// SPDX-License-Identifier: Apache-2.0
// The recorded activity of every thread, operator by operator, as plain data: no LibTorch here.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace autotuned::profiler {

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

enum class TimelineKind : std::uint8_t {
  operation,
  backward,  // the run of a node of autograd's graph
  module,    // the forward of a module
};

// An operator, a backward node or the forward of a module.
struct TimelineEvent {
  std::int64_t start_ns = 0;  // CLOCK_MONOTONIC
  std::int64_t end_ns = 0;
  // Autograd's sequence number: that of the last node that this operator created, or of the node that runs; -1: none.
  std::int64_t sequence = -1;
  // For a backward node: ThreadTimeline::logical_thread of the operator that created it.
  std::uint64_t forward_thread = 0;
  std::uint32_t name = kNone;  // index into ThreadTimeline::names; none for a module
  // Index into Timeline::modules: the module in which the event ran or to which it is charged.
  std::uint32_t module = kNone;
  std::uint32_t parent = kNone;  // the enclosing event of the same thread
  std::uint32_t inputs = kNone;  // index into ThreadTimeline::inputs
  TimelineKind kind = TimelineKind::operation;
};

// The inputs of an operator, as JSON in PyTorch's form: sizes "[[8, 3], []]", types "[\"float\",
// \"Scalar\"]", and the values of inputs that are no tensors as text, "[\"\", \"2\"]".
struct OperatorInputs {
  std::string sizes;
  std::string types;
  std::string values;

  friend bool operator==(const OperatorInputs&, const OperatorInputs&) = default;
};

// An allocation or a release.
struct MemoryEvent {
  std::int64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t address = 0;
  std::int64_t bytes = 0;            // negative for a release
  std::int64_t allocated_bytes = 0;  // allocated on its device afterwards
  std::int64_t reserved_bytes = 0;
  int device_type = 0;  // 0 is the CPU, 1 CUDA
  int device = -1;
};

// The events of one thread.
struct ThreadTimeline {
  std::int64_t thread = 0;           // the system's thread id
  std::uint64_t logical_thread = 0;  // LibTorch's
  std::deque<TimelineEvent> events;  // in the order of their beginnings
  std::deque<MemoryEvent> memory;
  std::vector<std::string> names;
  std::vector<OperatorInputs> inputs;
};

// An exchange between ranks, such as the mean of gradients: from its beginning on a thread of the process group until this rank has
// received everything.
struct ExchangeEvent {
  std::int64_t thread = 0;  // the system's number
  std::string name;         // "gloo:all_reduce"
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  OperatorInputs inputs;  // empty texts: not recorded
};

// The recorded events of all threads.
struct Timeline {
  std::vector<ThreadTimeline> threads;
  std::vector<ExchangeEvent> exchanges;
  std::vector<std::string> modules;  // paths: "model.blocks.0.attn.qkv"
  std::int64_t lost_events = 0;      // events for which there was no room
};

// The place of an event: a thread of Timeline::threads and an event of it.
struct TimelineEventIndex {
  std::size_t thread = 0;
  std::size_t event = 0;

  friend bool operator==(const TimelineEventIndex&, const TimelineEventIndex&) = default;
};
// A backward node, and the operator that created it.
struct BackwardLink {
  TimelineEventIndex forward;
  TimelineEventIndex backward;

  friend bool operator==(const BackwardLink&, const BackwardLink&) = default;
};

// Charges every backward node, and the operators in it, to the module of the operator that created the node. Returns the links between
// these operators and nodes. If several operators have a node's number, the one that began last created it:
// the outer ones only called it. Events that have a module keep it.
std::vector<BackwardLink> charge_backward(Timeline& timeline);

// The path of a module of a TorchScript model, without the script's own name, from LibTorch's form:
// "TOP(Net)::forward.layer1(Sequential)::forward.0(Block)::forward.aten::relu" gives "layer1.0".
[[nodiscard]] std::string script_module_path(std::string_view hierarchy);

}  // namespace autotuned::profiler
