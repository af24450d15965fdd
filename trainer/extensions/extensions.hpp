// SPDX-License-Identifier: Apache-2.0
// Trainer extensions (plugins/sdk/extension.hpp) of one job. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "plugins/host/trainer_library.hpp"
#include "recipes/knobs.hpp"
#include "trainer/extensions/compute_state.hpp"
#include "trainer/extensions/draws.hpp"
#include "trainer/extensions/given_batch.hpp"
#include "trainer/extensions/own_pass.hpp"
#include "trainer/extensions/reached_samples.hpp"
#include "trainer/extensions/weight_watch.hpp"
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
  // ErrorKind::internal names the plugin, also in Error::extensions: it threw, replaced a parameter, switched the mode of
  // a module, changed how operators compute (ComputeState), or visibly did not undo all of its changes. With the risk
  // `numerics`, apply() may choose precision and algorithms of the process.
  // The model is then in an undefined state. `may_round`: the recipe permits numerics, so that knobs of risk `exact` are
  // held to that, as by the check of a trial.
  [[nodiscard]] Result<void> configure(const Configuration& configuration, Learner& learner,
                                       bool may_round = false);

  [[nodiscard]] bool is_any_applied() const { return !applied_.empty(); }
  // Whether the next step is repeated by the model alone; to be called before on_batch(). The step throws if that gives
  // other gradients or buffers (own_pass.hpp). Never if one of the changed knobs declares the risk `semantics`.
  // REQUIRES: no other ranks, or Repeats::never.
  [[nodiscard]] bool takes_repeat(Repeats repeats);
  // The warning of a comparison with the model alone that a GPU had no memory for; it is given once, and once more of the
  // last step of a stretch. On a CPU, where memory hardly ever lacks, the step or the answer throws. Or once that of a
  // comparison that says nothing, because the model does not compute the same twice.
  [[nodiscard]] std::optional<Error> take_warning() {
    return std::exchange(warning_, std::nullopt);
  }
  // After takes_repeat(): the batch that the model would get without extensions.
  void begin_repeat(Learner& learner, const DeviceBatch& batch);
  // Call the hooks of the applied extensions; to be called in each step, which are counted from 1. They throw
  // PluginError that names the plugin if it throws. They and the forward pass between them also throw if an extension
  // leaves another batch than it was given, changes parameters or buffers, switches the mode of a module, leaves
  // another ComputeState, or keeps the gradients of samples back (docs/statistics.md), unless one of its changed knobs
  // declares the risk `semantics`. This is checked in every step, because an extension could recognise the steps of a
  // check. `is_last`: the weights may be saved before the next step, so that all of their numbers are compared.
  [[nodiscard]] DeviceBatch on_batch(const DeviceBatch& batch, std::int64_t step);
  // Says that the model gets this batch, which was made of the one that on_batch() has left. It is compared until the
  // optimizer moves, because an extension may keep its tensors.
  void keep_batch(const DeviceBatch& batch);
  // Makes the step of the learner. What fails in it outside of the hooks may be what an extension has left there, such as
  // a hook of a tensor that throws: an exception that is no lack of memory becomes a PluginError that suspects all
  // applied extensions. One that names extensions already stays as it is.
  [[nodiscard]] at::Tensor step(Learner& learner, const DeviceBatch& batch,
                                double learning_rate) const;
  void after_step(const Learner& learner, std::int64_t step, const at::Tensor& loss, bool is_last);
  // Ends a step that failed before the end of after_step(); without one it does nothing.
  void abandon_step();
  // Throws the same if parameters are not what the last step has left and the learner has not set them since. To be
  // called before the weights are copied; on_batch() does it, too.
  void check_weights() const;

  // An evaluation of so many batches, for as long as one lives: the model answers some of them once more by itself, one
  // at least. The learner throws PluginError if its answers are others.
  class Evaluation {
   public:
    Evaluation(Extensions& extensions, std::int64_t batches) : answers_(extensions.answers_) {
      answers_.begin(batches);
    }
    ~Evaluation() { answers_.end(); }
    Evaluation(const Evaluation&) = delete;
    Evaluation& operator=(const Evaluation&) = delete;

   private:
    BatchDraws& answers_;
  };

 private:
  struct One;
  // Replaces the graphs of a TorchScript model by those that the applied extensions make of it.
  Result<void> rewrite(Learner& learner);
  Result<void> apply(One& one, const Configuration& values, Learner& learner);
  Result<void> undo(One& one, Learner& learner);
  void set_forward(Learner& learner);
  // The model's own forward, or that of its rewritten script.
  [[nodiscard]] at::Tensor forward(Learner& learner, const at::Tensor& images);
  // extensions_own_pass.cpp: the answer by `whole`, the forward of all extensions. Throws if it is one of those that are
  // compared and not the model's.
  using Forward = std::function<at::Tensor(const at::Tensor& images)>;
  [[nodiscard]] at::Tensor answer(Learner& learner, const Forward& whole, const at::Tensor& images);
  // Throws if the step is repeated and differs.
  void check_repeat(Learner& learner);
  // Ends a comparison: throws if memory has lacked for it, or on a GPU notes a warning.
  void end_repeat(bool is_on_cpu, bool is_last);
  // Throws if it did anything.
  void check(const One& one, const char* function, const std::string& did) const;
  // Around code of an extension: end_code() throws if it has changed what it must not.
  void begin_code(const One& one);
  void end_code(const One& one, const char* function, WeightWatch::Of of) const;
  enum class ForwardEnd : std::uint8_t { calls_model, returns };
  // The same in its forward. In the forward pass of a step, gradients count as well: the backward pass would add to
  // them. In that, it may compute the forward once more.
  void begin_forward(const One& one);
  void end_forward(const One& one, ForwardEnd end) const;
  // Throws if the code of an extension that has just ended has left another state than it was given.
  void check_state(const One& one, const char* function) const;
  // The same of a step, whose code runs between the hooks as well.
  void check_state_of_step() const;
  // After the model's own forward, which began with this state.
  void check_state_of_model(Learner& learner, const ComputeState& before);
  // Whether one of the applied extensions has a turned knob of risk semantics.
  [[nodiscard]] bool may_any_change() const;
  // " in step 5"; outside of a step nothing.
  [[nodiscard]] std::string in_step() const;
  void drop_batch();
  void check_labels() const;
  void check_batch() const;
  // Until the next look, nobody but the learner has a reason to change weights.
  void leave_weights(const Learner& learner);
  // Throws if parameters have changed since the forward pass, or none has got a gradient, or the output for some
  // samples has not.
  void check_backward();
  struct Suspects {
    std::string who;  // "plugin mine or plugin other"
    std::vector<std::string> names;
  };
  [[nodiscard]] Suspects all_applied() const;
  [[noreturn]] void suspect_all(const std::string& what) const;
  [[noreturn]] void blame_all(const std::string& did, const char* when = "between its hooks") const;

  std::list<One> all_;
  std::vector<One*> applied_;
  GivenBatch given_;
  // The batch of keep_batch(), and its tensors until after_step(); undefined where it may be changed.
  GivenBatch left_batch_;
  at::Tensor left_images_;
  at::Tensor left_labels_;
  bool is_stepping_ = false;  // from on_batch() to after_step()
  std::int64_t step_ = 0;     // this or the last one
  ReachedSamples reached_;    // of the last forward pass of a step, or of a part of its batch
  ComputeState step_state_;   // since the begin of the step; what the model changes counts in
  bool is_model_opaque_ = false;
  WeightWatch weights_;       // around code of an extension
  WeightWatch left_weights_;  // from the forward pass to the optimizer, and between steps
  // The learner whose weights were left so, and its count then; null: nobody knows what they should be.
  const Learner* left_by_ = nullptr;
  std::int64_t left_at_ = 0;
  // From the end of the forward pass of a step to the optimizer; left_weights_ is of that.
  bool is_in_backward_ = false;
  const One* rewriter_ = nullptr;  // whose script runs; null: the model as it is
  OwnPass own_pass_;
  BatchDraws answers_;  // that are compared
  bool is_repeated_on_cpu_ = true;
  bool is_last_repeated_ = false;  // the present step is the last one of a stretch
  std::optional<Error> warning_;
  bool has_warned_ = false;
  bool has_warned_of_last_ = false;
  bool has_warned_of_unrepeated_ = false;
  Closeness closeness_ = Closeness::near;
};

}  // namespace autotuned::trainer
