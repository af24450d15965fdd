// SPDX-License-Identifier: Apache-2.0
// A trace that torch.profiler (Kineto) wrote, as columns: one row per event that has a duration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "profiler/traces/name_table.hpp"

namespace autotuned::traces {

enum class EventKind : std::uint8_t {
  step,          // ProfilerStep#N
  data_loading,  // enumerate(DataLoader)#….__next__: the training thread waits for, or makes, a batch
  communication,  // nccl:…, gloo:…, xccl:…, on the host
  cpu_operator,
  annotation,    // record_function, Optimizer.step
  runtime_call,  // cuda…, cu…, hip…: calls of the device's runtime or driver
  kernel,
  copy,
  fill,      // memset of the device
  overhead,  // overhead of the profiler itself
  module,    // nn.Module: X, a call of a part of the model
};

// "Not in the trace" for ids and indices.
inline constexpr std::int64_t kNoId = std::numeric_limits<std::int64_t>::min();
inline constexpr std::uint32_t kNoDetail = std::numeric_limits<std::uint32_t>::max();

// Work on a device. Figures that the trace lacks are NaN; missing ids are -1.
struct DeviceDetail {
  std::int32_t device = -1;
  std::int32_t stream = -1;
  std::int64_t bytes = 0;  // bytes of a copy or a fill
  float blocks_per_sm = std::numeric_limits<float>::quiet_NaN();
  float occupancy_percent = std::numeric_limits<float>::quiet_NaN();  // 0 to 100
};

// Columns of equal length. Rows are in the order of the file, which need not be the order of time.
struct Events {
  std::vector<EventKind> kind;
  std::vector<NameId> name;
  std::vector<std::uint32_t> thread;      // index into Trace::threads
  std::vector<std::int64_t> start_ns;     // on the trace's own clock
  std::vector<std::int64_t> length_ns;    // never negative
  std::vector<std::int64_t> external_id;  // id of the operator that launched this; kNoId: none
  std::vector<std::int64_t> correlation;  // shared by a launch and what it launched; kNoId: none
  // For kernel, copy and fill: index into Trace::details. For operators: the NameId of the input types, if
  // shapes were recorded. kNoDetail: none.
  std::vector<std::uint32_t> detail;
  // The path of the module that an operator ran in or is charged to; kNoDetail: not recorded.
  std::vector<NameId> module;
  // For operators: the NameId of the shapes of the inputs, if they were recorded. kNoDetail: none.
  std::vector<std::uint32_t> shapes;
  // The same for the values of inputs that are not tensors, such as strides.
  std::vector<std::uint32_t> values;
  // Autograd's sequence number: a node of the backward pass has that of its forward operator.
  std::vector<std::int64_t> sequence;  // kNoId: none
  std::vector<bool> is_backward;       // has a sequence number and belongs to the backward pass
  // For backward events: autograd's own number of the thread that counted; 0 for others.
  std::vector<std::uint32_t> forward_thread;

  [[nodiscard]] std::size_t size() const { return kind.size(); }
  [[nodiscard]] std::int64_t end_ns(std::size_t row) const {
    return start_ns[row] + length_ns[row];
  }
};

// A thread of the host, or a stream of a device.
struct Thread {
  std::string process;  // as written: a number, or a word such as "Spans"
  std::string thread;
  std::string name;  // given by the program; may be empty
};

// Memory of one device after an allocation or a release.
struct MemoryPoint {
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;            // negative for a release
  std::int64_t allocated_bytes = 0;  // afterwards
  std::int64_t reserved_bytes = 0;   // held by the allocator, afterwards; 0: not known
  std::int32_t device_type = 0;      // 0 is the CPU, 1 CUDA
  std::int32_t device = -1;
  std::uint32_t thread = 0;      // index into Trace::threads
  std::int64_t address = kNoId;  // the same for an allocation and its release
};

// A call of a Python function or of a module (with_stack=True).
struct PythonCall {
  std::uint32_t thread = 0;  // index into Trace::threads
  NameId name = 0;           // "train.py(30): main"
  std::int64_t start_ns = 0;
  std::int64_t length_ns = 0;  // never negative
  std::int32_t id = -1;        // -1: not in the trace, as for `caller`
  std::int32_t caller = -1;
};

// The stack that an operator itself carries, as TorchScript's interpreter writes it.
struct CallStackText {
  std::uint32_t row = 0;  // of Events
  NameId text = 0;        // "model.py(12): forward;train.py(30): main;", the innermost first
};

// The size of a collective operation, from the event of its kernel or of the host.
struct CollectiveSize {
  std::uint32_t row = 0;   // of Events
  NameId name = 0;         // "allreduce"; empty if the event does not say
  std::int64_t bytes = 0;  // that this rank sends
};

struct DeviceProperties {
  int id = 0;
  std::string name;
  std::int64_t memory_bytes = 0;
  int compute_major = 0;
  int compute_minor = 0;
};

// A trace. Rows of `events` refer to the other tables by index.
struct Trace {
  std::string file;
  NameTable names;
  Events events;
  std::vector<DeviceDetail> details;
  std::vector<Thread> threads;
  std::vector<MemoryPoint> memory;
  std::vector<DeviceProperties> devices;
  // Only if the reader was asked for stacks.
  std::vector<PythonCall> python_calls;
  std::vector<CallStackText> call_stacks;   // by row
  std::vector<CollectiveSize> collectives;  // by row; only those whose size is known

  std::optional<int> rank;  // nothing: the job was not distributed
  int world_size = 1;
  std::string backend;  // "nccl"
  int cpus = 0;         // CPUs that the program could use; 0: not in the trace

  std::int64_t elements = 0;     // number of elements in the file's list of events, read or not
  bool has_input_types = false;  // record_shapes=True
  bool has_modules = false;      // with_stack=True, with_modules=True
  bool is_complete = true;       // false: the file ends, or is damaged, inside the list

  // A sentence for each problem of reading, with its place. Everything else was read.
  std::vector<std::string> damage;
  // Sentences about parts that were read but are not understood, such as the categories of another accelerator.
  std::vector<std::string> notes;

  [[nodiscard]] const std::string& name_of(std::size_t row) const {
    return names.text(events.name[row]);
  }
};

[[nodiscard]] inline bool is_on_device(EventKind kind) {
  return kind == EventKind::kernel || kind == EventKind::copy || kind == EventKind::fill;
}

}  // namespace autotuned::traces
