// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/extensions.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>

#include "base/process/call_filter.hpp"
#include "plugins/sdk/extension.hpp"
#include "trainer/common/plugin_call.hpp"
#include "trainer/extensions/model_state.hpp"
#include "trainer/models/model.hpp"
#include "trainer/models/scripted.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

using plugins::TrainerLibrary;
using recipes::RiskClass;

sdk::KnobValues told(const Configuration& values) {
  sdk::KnobValues told;
  for (const auto& [name, value] : values.values()) {
    if (const auto* flag = std::get_if<bool>(&value)) {
      told.set(name, *flag);
    } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      told.set(name, *integer);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      told.set(name, *text);
    }
  }
  return told;
}

[[noreturn]] void blame(const std::string& who, const std::vector<std::string>& names,
                        const char* function, const std::string& did) {
  throw PluginError(who + ": " + function + ": " + did +
                        ": only a knob of risk semantics may change what is trained",
                    names, ExtensionFault::trained_otherwise);
}

tl::unexpected<Error> fault_of(const std::string& who, const std::vector<std::string>& names,
                               std::string what, std::string remedy) {
  Error error{ErrorKind::internal, std::move(what), who, std::move(remedy)};
  error.extensions = names;
  return tl::unexpected<Error>(std::move(error));
}

// No comparison shows what is not trained: without an extension it would not be either.
constexpr const char* kLeaveTensors =
    "change parameters and buffers in place: the optimizer holds them, and only a knob of risk "
    "semantics may freeze them";

constexpr const char* kLeaveState =
    "put it back; only apply() of a knob of risk numerics may choose precision and algorithms of "
    "the process";

// What apply() must not have changed.
std::string state_difference(const ComputeState& found, const ComputeState& applied,
                             RiskClass risk) {
  if (risk == RiskClass::semantics) return {};
  const bool may_choose = risk == RiskClass::numerics;
  return applied.difference(found, may_choose ? ComputeState::Of::thread : ComputeState::Of::all);
}

Freezing freezing_under(RiskClass risk) {
  return risk == RiskClass::semantics ? Freezing::allowed : Freezing::refused;
}

// Once in a process, before any code of an extension runs. A trainer that cannot be confined trains all the same.
void confine() {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto confined = refuse_calls_to_other_processes();
    if (confined) return;
    std::fputs(("autotuned-trainer: " + confined.error().message() + "\n").c_str(), stderr);
  });
}

// A script as an extension has rewritten it.
struct Rewritten {
  Configuration values;
  torch::jit::Module before;
  torch::jit::Module after;
};

}  // namespace

struct Extensions::One {
  TrainerLibrary library;
  std::string who;                 // "plugin mine"
  std::vector<std::string> names;  // its own alone, for errors
  std::unique_ptr<sdk::Extension> extension;
  Configuration values;                       // applied; empty: not
  Configuration wanted;                       // to be applied
  bool can_be_undone = true;                  // no knob that is turned needs a restart
  RiskClass risk = RiskClass::exact;          // of the knobs that are turned
  RiskClass applied_risk = RiskClass::exact;  // the same of the values that are applied
  ShownImages shown;                          // to the model, by its forward
  ModelState before;
  ComputeState found;              // before apply()
  ComputeState applied;            // after it
  ComputeState given;              // to the call that runs, with what the model has changed since
  std::vector<Rewritten> scripts;  // with every set of values so far
};

Extensions::Extensions(std::vector<TrainerLibrary> libraries) {
  for (TrainerLibrary& library : libraries) {
    if (library.kind != TrainerLibrary::Kind::extension) continue;
    std::string who = "plugin " + library.name;
    std::vector<std::string> names = {library.name};
    all_.push_back(
        {.library = std::move(library), .who = std::move(who), .names = std::move(names)});
  }
}

Extensions::~Extensions() = default;

std::vector<recipes::Knob> Extensions::knobs() const {
  std::vector<recipes::Knob> knobs;
  for (const One& one : all_)
    knobs.insert(knobs.end(), one.library.knobs.begin(), one.library.knobs.end());
  return knobs;
}

Result<void> Extensions::configure(const Configuration& configuration, Learner& learner,
                                   bool may_round) {
  left_by_ = nullptr;  // apply() and undo() may change weights
  is_in_backward_ = false;
  drop_batch();
  for (One& one : all_) {
    one.wanted = {};
    bool is_turned = false;
    bool can_be_undone = true;
    RiskClass risk = RiskClass::exact;
    for (const recipes::Knob& knob : one.library.knobs) {
      const KnobValue* const value = configuration.find(knob.name);
      one.wanted.set(knob.name, value != nullptr ? *value : knob.default_value);
      if (value == nullptr || *value == knob.default_value) continue;
      is_turned = true;
      can_be_undone = can_be_undone && knob.how == recipes::KnobSwitch::live;
      risk = std::max(risk, knob.risk);
    }
    if (!is_turned) one.wanted = {};
    one.can_be_undone = can_be_undone;
    one.risk = risk;
  }
  // A later extension builds on the changes of an earlier one, so they are undone from the last one down to the first
  // that changes.
  const auto first =
      std::ranges::find_if(applied_, [](const One* one) { return one->values != one->wanted; });
  const std::vector<One*> changed(first, applied_.end());
  for (auto one = changed.rbegin(); one != changed.rend(); ++one) {
    if ((*one)->values == (*one)->wanted && !(*one)->can_be_undone) continue;
    if (auto undone = undo(**one, learner); !undone) return undone;
  }
  for (One& one : all_) {
    if (one.values == one.wanted) continue;
    if (auto applied = apply(one, one.wanted, learner); !applied) return applied;
  }
  if (!is_any_applied()) return {};
  const bool is_exact =
      std::ranges::all_of(applied_, [](const One* one) { return one->risk == RiskClass::exact; });
  closeness_ = is_exact && !may_round ? Closeness::equal : Closeness::near;
  own_pass_.forget_steps();
  weights_.watch(learner.model());
  left_weights_.watch(learner.model());
  return {};
}

Result<void> Extensions::apply(One& one, const Configuration& values, Learner& learner) {
  one.found = ComputeState::now();  // loading it runs code as well
  if (one.extension == nullptr) {
    confine();
    const Result<const void*> surface = plugins::load_trainer_library(one.library);
    if (!surface) return tl::unexpected(surface.error());
    const auto* const extension = static_cast<const sdk::detail::ExtensionSurface*>(*surface);
    auto made = plugin_result(
        ErrorKind::internal, one.who, "constructor", [&] { return extension->make(); }, one.names);
    if (!made) return tl::unexpected(made.error());
    one.extension = std::move(*made);
  }
  one.before = model_state_of(learner.model());
  auto done = plugin_result(
      ErrorKind::internal, one.who, "apply",
      [&] { one.extension->apply(told(values), learner.model()); }, one.names);
  if (!done) return tl::unexpected(done.error());
  one.applied = ComputeState::now();
  const std::string chosen = state_difference(one.found, one.applied, one.risk);
  if (!chosen.empty()) return fault_of(one.who, one.names, "apply: " + chosen, kLeaveState);
  const ModelState after = model_state_of(learner.model());
  const std::string wrong = tensor_difference(one.before, after, freezing_under(one.risk));
  if (!wrong.empty()) return fault_of(one.who, one.names, "apply: " + wrong, kLeaveTensors);
  // The next evaluation would put all modules back in training mode: it would train otherwise before and after it.
  if (one.risk != RiskClass::semantics) {
    const std::string switched = mode_difference(one.before, after);
    if (!switched.empty()) {
      return fault_of(
          one.who, one.names, "apply: " + switched,
          "leave each module in its mode: only a knob of risk semantics may change what "
          "is trained");
    }
  }
  one.values = values;
  one.applied_risk = one.risk;
  applied_.push_back(&one);
  set_forward(learner);
  return rewrite(learner);
}

Result<void> Extensions::undo(One& one, Learner& learner) {
  std::erase(applied_, &one);
  set_forward(learner);
  one.values = {};
  // Between two configurations, the time of two hashes does not count.
  const bool may_change = one.applied_risk == RiskClass::semantics;
  if (!may_change) weights_.take_all_numbers();
  const ModelState found = model_state_of(learner.model());
  ComputeState expected = ComputeState::now();
  expected.take_change(one.applied, one.found);
  auto done = plugin_result(
      ErrorKind::internal, one.who, "undo", [&] { one.extension->undo(learner.model()); },
      one.names);
  if (!done) return tl::unexpected(done.error());
  const ComputeState state = ComputeState::now();
  const ModelState after = model_state_of(learner.model());
  std::string wrong = tensor_difference(one.before, after, Freezing::refused);
  if (wrong.empty() && !may_change) wrong = state.difference(expected, ComputeState::Of::all);
  if (wrong.empty()) wrong = mode_difference_of_undo(one.before, found, after, may_change);
  if (wrong.empty()) wrong = weights_.difference_in_all_numbers(WeightWatch::Of::all);
  weights_.drop_all_numbers();
  if (!wrong.empty()) {
    return fault_of(one.who, one.names, "undo: " + wrong,
                    "put everything back, or declare that the knob needs a restart");
  }
  return rewrite(learner);
}

// The copies share their tensors. They are kept, because trials switch a knob back and forth, and LibTorch keeps the
// types of every new copy until the process ends.
Result<void> Extensions::rewrite(Learner& learner) {
  rewriter_ = nullptr;
  auto* const scripted = dynamic_cast<Scripted*>(&learner.model());
  if (scripted == nullptr) return {};
  torch::jit::Module script = scripted->original();
  if (auto back = scripted->run(script); !back) return back;
  for (One* const one : applied_) {
    auto known = std::ranges::find_if(one->scripts, [&](const Rewritten& rewritten) {
      return rewritten.values == one->values && rewritten.before._ivalue() == script._ivalue();
    });
    if (known == one->scripts.end()) {
      const ModelState before = model_state_of(learner.model());
      const ComputeState state = ComputeState::now();
      auto made = plugin_result(
          ErrorKind::internal, one->who, "rewrite",
          [&] {
            torch::jit::Module copy = script.clone(true);
            return one->extension->rewrite(told(one->values), copy) ? copy : script;
          },
          one->names);
      if (!made) return tl::unexpected(made.error());
      const std::string chosen = ComputeState::now().difference(state, ComputeState::Of::all);
      if (!chosen.empty() && one->risk != RiskClass::semantics) {
        return fault_of(one->who, one->names, "rewrite: " + chosen, kLeaveState);
      }
      const std::string wrong =
          tensor_difference(before, model_state_of(learner.model()), freezing_under(one->risk));
      if (!wrong.empty()) return fault_of(one->who, one->names, "rewrite: " + wrong, kLeaveTensors);
      one->scripts.push_back({one->values, script, *made});
      known = std::prev(one->scripts.end());
    }
    script = known->after;
    if (script._ivalue() == known->before._ivalue()) continue;
    rewriter_ = one;
    if (auto taken = scripted->run(script); !taken) {
      return fault_of(one->who, one->names, "rewrite: " + taken.error().what, taken.error().remedy);
    }
  }
  return {};
}

void Extensions::set_forward(Learner& learner) {
  if (applied_.empty()) {
    learner.set_before_update(nullptr);
    return learner.set_forward(nullptr);
  }
  learner.set_before_update([this, &learner] {
    check_backward();
    check_state_of_step();
    check_repeat(learner);
  });
  is_model_opaque_ = !learner.model().why_opaque().empty();
  Learner::Forward whole = [this, &learner](const at::Tensor& images) {
    // Where it computes the forward once more for the gradients, those are the samples that it trains.
    if (!is_stepping_ || at::GradMode::is_enabled()) learner.tell_images(images);
    return forward(learner, images);
  };
  for (One* const one : applied_) {
    // What the model itself changes meanwhile, or its lack of memory, is not of the extension.
    Learner::Forward original = [this, one, inner = std::move(whole)](const at::Tensor& images) {
      const ComputeState before = ComputeState::now();
      end_forward(*one, ForwardEnd::calls_model);
      one->shown.add(images);
      at::Tensor logits = call_from_plugin([&] { return inner(images); });
      begin_forward(*one);
      one->given.take_change(before, ComputeState::now());
      return logits;
    };
    whole = [this, one, original = std::move(original)](const at::Tensor& images) {
      one->shown.start(images);
      begin_forward(*one);
      one->given = ComputeState::now();
      at::Tensor logits = plugin_call(
          one->who, "forward", [&] { return one->extension->forward(original, images); },
          one->names, in_step());
      check_state(*one, "forward");
      end_forward(*one, ForwardEnd::returns);
      if (!logits.defined()) {
        throw PluginError(one->who + ": forward: returns nothing" + in_step(), one->names);
      }
      if (is_stepping_ && one->risk != RiskClass::semantics) {
        const std::string did = one->shown.difference();
        if (!did.empty()) blame(one->who, one->names, "forward", did + in_step());
      }
      return logits;
    };
  }
  learner.set_forward([this, &learner, whole = std::move(whole)](const at::Tensor& images) {
    check_backward();  // of the part of the batch before
    if (is_stepping_) {
      check_batch();
      reached_.start(images);
    }
    if (!is_stepping_) return answer(learner, whole, images);
    weights_.begin_buffers();
    at::Tensor logits = whole(images);
    check_labels();
    leave_weights(learner);
    reached_.begin_backward();
    is_in_backward_ = true;
    return logits;
  });
}

at::Tensor Extensions::forward(Learner& learner, const at::Tensor& images) {
  const bool is_compared = rewriter_ != nullptr || (!is_stepping_ && left_by_ != nullptr);
  if (is_stepping_) check_batch();
  if (is_compared) weights_.take();
  const ComputeState before = ComputeState::now();
  at::Tensor logits = learner.model().forward(images);
  check_state_of_model(learner, before);
  if (is_stepping_) weights_.add_buffers();
  if (is_stepping_) reached_.watch(images, logits);
  // A model of ours leaves its batch as it is. A user's may write into it, such as to normalise it, and other parts of
  // the batch may come after this one.
  if (is_stepping_ && left_labels_.defined() && !learner.model().why_opaque().empty()) {
    check_labels();
    left_batch_.take(left_images_, left_labels_);
  }
  if (rewriter_ != nullptr) {
    end_code(*rewriter_, "rewrite", WeightWatch::Of::parameters);
  } else if (is_compared) {
    const std::string did = weights_.difference(WeightWatch::Of::parameters);
    if (did.empty()) return logits;
    // A model of ours does not: an operator has done it. A user's may move its weights itself.
    if (learner.model().why_opaque().empty()) blame_all(did + " outside of a step");
    left_by_ = nullptr;
  }
  return logits;
}

void Extensions::begin_forward(const One& one) {
  begin_code(one);
  if (is_stepping_ && !is_in_backward_ && one.risk != RiskClass::semantics) {
    weights_.take_gradients();
  }
}

// Who calls the model more often than once puts running averages back.
void Extensions::end_forward(const One& one, ForwardEnd end) const {
  const bool returns = end == ForwardEnd::returns;
  const std::size_t calls = weights_.model_calls();
  const bool may_put_back =
      is_stepping_ && (is_in_backward_ || calls > 1 || (calls == 1 && !returns));
  end_code(one, "forward", may_put_back ? WeightWatch::Of::parameters : WeightWatch::Of::all);
  if (is_stepping_ && !may_any_change()) {
    check(one, "forward", weights_.difference_of_buffers(/*may_be_as_at_begin=*/!returns));
  }
  if (!is_stepping_ || is_in_backward_ || one.risk == RiskClass::semantics) return;
  check(one, "forward", weights_.difference_of_gradients());
}

bool Extensions::may_any_change() const {
  return std::ranges::any_of(applied_,
                             [](const One* one) { return one->risk == RiskClass::semantics; });
}

void Extensions::begin_code(const One& one) {
  if (one.risk != RiskClass::semantics) weights_.take();
}

void Extensions::end_code(const One& one, const char* function, WeightWatch::Of of) const {
  if (one.risk != RiskClass::semantics) check(one, function, weights_.difference(of));
}

void Extensions::check_state(const One& one, const char* function) const {
  if (one.risk == RiskClass::semantics) return;
  check(one, function, ComputeState::now().difference(one.given, ComputeState::Of::all));
}

void Extensions::check(const One& one, const char* function, const std::string& did) const {
  if (did.empty()) return;
  blame(one.who, one.names, function, did + (is_stepping_ ? in_step() : " outside of a step"));
}

Extensions::Suspects Extensions::all_applied() const {
  Suspects all;
  for (const One* const one : applied_) {
    all.who += (all.who.empty() ? "" : " or ") + one->who;
    all.names.push_back(one->library.name);
  }
  return all;
}

void Extensions::blame_all(const std::string& did, const char* when) const {
  const Suspects all = all_applied();
  blame(all.who, all.names, when, did);
}

DeviceBatch Extensions::on_batch(const DeviceBatch& batch, std::int64_t step) {
  check_weights();
  left_by_ = nullptr;
  is_in_backward_ = false;
  weights_.begin_step();
  left_weights_.begin_step();
  DeviceBatch result = batch;
  is_stepping_ = true;
  step_ = step;
  step_state_ = ComputeState::now();
  for (One* const one : applied_) {
    given_.take(result.images, result.labels);
    sdk::Batch hooked{result.images, result.labels};
    begin_code(*one);
    one->given = ComputeState::now();
    plugin_call(
        one->who, "on_batch", [&] { one->extension->on_batch(hooked); }, one->names, in_step());
    check_state(*one, "on_batch");
    end_code(*one, "on_batch", WeightWatch::Of::all);
    if (!hooked.images.defined() || !hooked.labels.defined() ||
        hooked.images.dim() != result.images.dim() ||
        hooked.labels.scalar_type() != result.labels.scalar_type() ||
        hooked.labels.dim() != result.labels.dim() ||
        hooked.labels.sizes().slice(1) != result.labels.sizes().slice(1) ||
        hooked.images.size(0) != hooked.labels.size(0)) {
      throw PluginError(
          one->who + ": on_batch: leaves images and labels that do not fit each other" + in_step(),
          one->names);
    }
    if (one->risk != RiskClass::semantics) {
      const std::string did =
          given_.difference(hooked.images, hooked.labels, one->risk == RiskClass::numerics);
      if (!did.empty()) blame(one->who, one->names, "on_batch", did + in_step());
    }
    result.images = std::move(hooked.images);
    result.labels = std::move(hooked.labels);
  }
  keep_batch(result);
  return result;
}

void Extensions::after_step(const Learner& learner, std::int64_t step, const at::Tensor& loss,
                            bool is_last) {
  step_ = step;
  check_state_of_step();
  drop_batch();
  if ((is_last || left_weights_.is_drawn_for_all()) && !may_any_change()) {
    left_weights_.take_all_numbers();
  }
  const at::Tensor told = loss.detach().clone();  // what is reported is the loss itself
  for (One* const one : applied_) {
    begin_code(*one);
    one->given = ComputeState::now();
    plugin_call(
        one->who, "after_step", [&] { one->extension->after_step(step, told); }, one->names,
        in_step());
    check_state(*one, "after_step");
    end_code(*one, "after_step", WeightWatch::Of::all);
    check(*one, "after_step", left_weights_.difference_in_all_numbers(WeightWatch::Of::all));
  }
  is_stepping_ = false;
  leave_weights(learner);
}

}  // namespace autotuned::trainer
