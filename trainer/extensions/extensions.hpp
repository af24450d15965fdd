// SPDX-License-Identifier: Apache-2.0
// Trainer extensions (plugins/sdk/extension.hpp) of one job. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "plugins/host/trainer_library.hpp"
#include "recipes/knobs.hpp"
#include "trainer/extensions/given_batch.hpp"
#include "trainer/feed/feed.hpp"

namespace autotuned::sdk {
class Extension;
}

namespace autotuned::trainer {

class Learner;

// The extensions of a job. Each is loaded when one of its knobs first gets another value than its default. Before the
// first is loaded, the process gives up the calls that reach other processes (base/process/call_filter.hpp). One thread.
class Extensions {
 public:
  // Uses the extensions among `libraries`.
  explicit Extensions(std::vector<plugins::TrainerLibrary> libraries);
  ~Extensions();

  [[nodiscard]] std::vector<recipes::Knob> knobs() const;

  // Applies the values of the extensions' knobs: undoes the extensions whose values change, and applies them again.
  // ErrorKind::internal names the plugin: it threw, replaced a parameter, or visibly did not undo all of its changes.
  // The model is then in an undefined state.
  [[nodiscard]] Result<void> configure(const Configuration& configuration, Learner& learner);

  [[nodiscard]] bool is_any_applied() const { return !applied_.empty(); }
  // Call the hooks of the applied extensions; to be called in each step. They throw std::runtime_error that names the
  // plugin if it throws. They and the forward pass between them also throw if an extension leaves another batch than it
  // was given, unless one of its changed knobs declares the risk `semantics`. This is checked in every step, because an
  // extension could recognise the steps of a check.
  [[nodiscard]] DeviceBatch on_batch(const DeviceBatch& batch);
  void after_step(std::int64_t steps_done, const at::Tensor& loss);

 private:
  struct One;
  // Replaces the graphs of a TorchScript model by those that the applied extensions make of it.
  Result<void> rewrite(Learner& learner) const;
  Result<void> apply(One& one, const Configuration& values, Learner& learner);
  Result<void> undo(One& one, Learner& learner);
  void set_forward(Learner& learner) const;

  std::list<One> all_;
  std::vector<One*> applied_;
  GivenBatch given_;
  bool is_stepping_ = false;  // between on_batch() and after_step()
};

}  // namespace autotuned::trainer
