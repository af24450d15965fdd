// SPDX-License-Identifier: Apache-2.0
// A trainer extension: knobs of your own, obeyed inside the trainer by changing the model or its graph,
// interposing an operator (operator.hpp), or hooking batches and steps. Needs LibTorch, and the compiler that
// the program was built with (autotuned_trainer.h). docs/plugin-guide.md shows whole ones.
//
// Only a trainer whose configuration gives one of its knobs another value than the default loads an extension.
// Functions may throw: the trial is then `failed` with what(), and the rest of the run goes on without the extension;
// likewise if it crashes or hangs. Its results are checked as the declared risk of each knob asks, against a trainer
// that never loaded the extension.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/version.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>

#include "plugins/sdk/autotuned_trainer.h"

namespace torch::jit {
struct Module;
}

namespace autotuned::sdk {

// The present values of an extension's knobs, defaults included. Reads throw std::out_of_range for a knob
// that it did not declare, std::bad_variant_access for another type.
class KnobValues {
 public:
  using Value = std::variant<bool, std::int64_t, std::string>;

  void set(const std::string& knob, Value value) { values_[knob] = std::move(value); }
  [[nodiscard]] bool flag(const std::string& knob) const { return std::get<bool>(at(knob)); }
  [[nodiscard]] std::int64_t integer(const std::string& knob) const {
    return std::get<std::int64_t>(at(knob));
  }
  [[nodiscard]] const std::string& choice(const std::string& knob) const {
    return std::get<std::string>(at(knob));
  }

 private:
  [[nodiscard]] const Value& at(const std::string& knob) const { return values_.at(knob); }

  std::map<std::string, Value> values_;
};

// The batch of one training step. A hook may replace the tensors.
struct Batch {
  at::Tensor images;  // float32 (samples, channels, height, width)
  // The targets: classes are int64 (samples); numbers and tags are float32 (samples, values); masks are int64 (samples,
  // height, width), with 255 where a pixel does not count.
  at::Tensor labels;
};

// The model's own forward.
using Forward = std::function<at::Tensor(const at::Tensor& images)>;

// The base class of extensions. A trainer makes one object, when it is first needed, and calls it from one thread.
class Extension {
 public:
  Extension() = default;
  Extension(const Extension&) = delete;
  Extension& operator=(const Extension&) = delete;
  virtual ~Extension() = default;

  // Applies these values between two steps. At least one of them is not its default. May change the model and its
  // modules, but must not replace or add a parameter or a buffer: the optimizer holds them. Unless a changed knob declares
  // the risk `semantics`, modules must stay in training mode, and neither this nor rewrite() may freeze a parameter, or give
  // tensors memory in common, or a tensor memory in which its numbers overlap.
  virtual void apply(const KnobValues& values, torch::nn::Module& model) = 0;
  // Restores the state before apply(), which is called again for other values. Not called for knobs that need a
  // restart. Afterwards the program checks that the same parameters and buffers are there, and the modes of modules. Unless
  // a knob that was changed declares the risk `semantics`, undo() must leave all numbers of parameters and buffers.
  virtual void undo(torch::nn::Module& model) = 0;

  // For TorchScript models, after apply() with these values: changes the graphs of `script` and returns whether it did.
  // The graphs are a copy that has not run yet. forward() runs the copy until undo(), which need not restore it.
  // Parameters and buffers are the model's own and must stay. Called once for each set of values and, if several
  // extensions rewrite, for each script that the one before returned; the result is kept.
  virtual bool rewrite(const KnobValues& /*values*/, torch::jit::Module& /*script*/) {
    return false;
  }

  // The hooks below are called between apply() and undo(). Every step must train the samples that the loader gave, with
  // their labels, unless a changed knob declares the risk `semantics`. A step fails if a hook leaves or shows the model
  // fewer samples, other sizes or other numbers (with the risk `numerics`, images may differ by rounding), or changes,
  // replaces or freezes a parameter or a buffer: the optimizer alone moves the weights, and in a step `original` the
  // buffers. A hook must leave autocast, the recording of gradients, callbacks of operators, and precision and
  // algorithms of the process as they were; with the risk `numerics`, apply() may choose the latter two until undo(). It
  // fails as well if a hook switches a module to evaluation mode before it calls `original` or ends, if no parameter
  // gets a gradient, or if what `original` returned for some samples gets none.
  //
  // Called instead of the model's forward, in training and evaluation. In a step, `original` must be given all of
  // `images`, at once or in parts, and the loss must depend on all that it returns. If it is called without gradients,
  // as for activation checkpointing, it must be called for the same samples once more in the backward pass, with them.
  // Now and then the model's own forward runs after that, without the extension and hooks of parameters: gradients, buffers
  // and answers must be those that it gives, value for value or, with the risk `numerics`, but for rounding. So where
  // `original` is called more often than once for a sample, or in parts, put back what each further call moves: running
  // averages and their counts, and the states of random generators. Neither on_batch() nor this may draw from
  // LibTorch's generators before it calls `original`: the model would get other random numbers, such as those of dropout.
  virtual at::Tensor forward(const Forward& original, const at::Tensor& images) {
    return original(images);
  }
  // Called before each training step. Labels must keep their type and, except for the number of samples, their sizes.
  virtual void on_batch(Batch& /*batch*/) {}
  // Called after each training step. `loss` is a copy of the scalar, on the device; reading it waits for the device. A
  // check puts weights back and repeats steps: the same `steps_done` may come more than once.
  virtual void after_step(std::int64_t /*steps_done*/, const at::Tensor& /*loss*/) {}
};

namespace detail {

struct ExtensionSurface {
  std::unique_ptr<Extension> (*make)();
};

template <class T>
std::unique_ptr<Extension> make_extension() {
  return std::make_unique<T>();
}

}  // namespace detail
}  // namespace autotuned::sdk

// Makes this library a trainer extension; once, at global scope. NAME is that of the file,
// libNAME_trainer.so; VERSION and SUMMARY are string literals; TYPE is derived from Extension; then the
// knobs as a JSON array in a string literal:
//
//   AUTOTUNED_EXTENSION("mine", "1.0", "Skips zeros.", Mine, R"([
//     {"name": "mine.skip", "type": "boolean", "risk": "exact", "summary": "Whether zeros are skipped."}
//   ])");
//
// A knob has: name, NAME.word; type: boolean (off by default), integer (minimum, maximum, default) or
// choice (choices, of which the first is the default); risk: exact, numerics or semantics; summary; and, if
// it must, switch: restart, unit and warmup_steps.
#define AUTOTUNED_EXTENSION(NAME, VERSION, SUMMARY, TYPE, KNOBS)                             \
  namespace {                                                                                \
  constexpr ::autotuned::sdk::detail::ExtensionSurface kAutotunedSurface = {                 \
      ::autotuned::sdk::detail::make_extension<TYPE>};                                       \
  }                                                                                          \
  AUTOTUNED_TRAINER(                                                                         \
      AUTOTUNED_TRAINER_METADATA("extension", NAME, VERSION, SUMMARY, TORCH_VERSION, KNOBS), \
      &kAutotunedSurface)
