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

// An extension is loaded when one of its knobs leaves its default for the first time. One thread.
class Extensions {
 public:
  // Of these the extensions.
  explicit Extensions(std::vector<plugins::TrainerLibrary> libraries);
  ~Extensions();

  [[nodiscard]] std::vector<recipes::Knob> knobs() const;

  // Takes on the values of the extensions' knobs: undoes those that change and applies them anew. An error
  // (ErrorKind::internal, where the plugin is named) leaves the model in between. So does an extension that
  // exchanged a parameter, or did not undo all of what it did as far as that can be seen.
  [[nodiscard]] Result<void> configure(const Configuration& configuration, Learner& learner);

  [[nodiscard]] bool is_any_applied() const { return !applied_.empty(); }
  // The hooks of those applied, of each step; throw std::runtime_error that names the plugin. So do they, and the forward
  // pass between them, where an extension leaves another batch than it was given, unless a knob that it has turned
  // declares the risk `semantics`: in every step, for one that sees when it is checked.
  [[nodiscard]] DeviceBatch on_batch(const DeviceBatch& batch);
  void after_step(std::int64_t steps_done, const at::Tensor& loss);

 private:
  struct One;
  // Puts what those applied make of a TorchScript model in its place.
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
