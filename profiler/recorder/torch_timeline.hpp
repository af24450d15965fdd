// SPDX-License-Identifier: Apache-2.0
// Records every operator that LibTorch runs, on all threads, and what ranks exchange. This header does not need LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "profiler/recorder/timeline.hpp"
#include "profiler/scopes.hpp"

namespace autotuned::profiler {

struct TimelineOptions {
  bool records_shapes = false;           // sizes and types of operators' inputs
  bool records_memory = false;           // allocations and releases
  std::int64_t most_events = 2'000'000;  // about 60 bytes each; further events are lost and counted
  // Gets the scope_of_operator() of each operator, by its place in the timeline; may be null.
  ScopeListener* listener = nullptr;
};

// The paths of modules, by the address of the torch::nn::Module or of the TensorImpl of one of its parameters.
using ModulePaths = std::unordered_map<const void*, std::string>;

// Records from its construction to stop(), both on the thread that trains. At most one at a time in a process. An
// operator has a module if a ModuleSpan is around its forward, or in TorchScript. REQUIRES: no operator is
// running at either end.
class TimelineRecorder {
 public:
  explicit TimelineRecorder(const TimelineOptions& options);
  ~TimelineRecorder();
  TimelineRecorder(const TimelineRecorder&) = delete;
  TimelineRecorder& operator=(const TimelineRecorder&) = delete;

  // Returns the recording, with the paths of modules. Modules that `paths` lacks are left out. May be called once.
  [[nodiscard]] Timeline stop(const ModulePaths& paths);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::profiler
