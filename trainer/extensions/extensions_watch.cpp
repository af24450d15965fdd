// SPDX-License-Identifier: Apache-2.0
// What extensions leave of the batch and the weights until the optimizer moves, and between steps.
#include <exception>
#include <string>
#include <utility>

#include "trainer/common/guarded.hpp"
#include "trainer/common/plugin_error.hpp"
#include "trainer/extensions/extensions.hpp"
#include "trainer/models/model.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {

void Extensions::keep_batch(const DeviceBatch& batch) {
  drop_batch();
  if (may_any_change()) return;
  left_batch_.take(batch.images, batch.labels);
  left_images_ = batch.images;
  left_labels_ = batch.labels;
}

at::Tensor Extensions::step(Learner& learner, const DeviceBatch& batch,
                            double learning_rate) const {
  try {
    return learner.step(batch, learning_rate);
  } catch (const PluginError& error) {
    if (!error.extensions().empty()) throw;
    suspect_all(error.what());  // of a workload, which may have got something odd from them
  } catch (const ShortageError&) {
    throw;
  } catch (const UnsupportedError&) {
    throw;
  } catch (const std::exception& error) {
    if (shortage_in(error)) throw;
    const Error told = error_from(error, "");
    if (told.kind != ErrorKind::internal) throw;  // such as of a GPU that others use
    suspect_all(told.what);
  } catch (...) {
    suspect_all("an exception of an unknown type");
  }
}

void Extensions::suspect_all(const std::string& what) const {
  Suspects all = all_applied();
  throw PluginError(what + in_step() + ", with " + all.who + " on, which may be the cause",
                    std::move(all.names), ExtensionFault::suspected);
}

void Extensions::drop_batch() {
  left_images_.reset();
  left_labels_.reset();
}

std::string Extensions::in_step() const {
  return is_stepping_ ? " in step " + std::to_string(step_) : "";
}

void Extensions::check_labels() const {
  if (!left_labels_.defined() || !left_batch_.has_other_labels(left_labels_)) return;
  blame_all("leaves other labels" + in_step());
}

void Extensions::check_batch() const {
  if (!left_labels_.defined()) return;
  const std::string did = left_batch_.difference(left_images_, left_labels_, /*rounds=*/false);
  if (!did.empty()) blame_all(did + in_step());
}

void Extensions::leave_weights(const Learner& learner) {
  left_by_ = nullptr;
  if (may_any_change()) return;
  left_weights_.take();
  left_by_ = &learner;
  left_at_ = learner.times_set();
}

void Extensions::check_backward() {
  check_labels();
  if (!std::exchange(is_in_backward_, false)) return;
  const Learner* const learner = std::exchange(left_by_, nullptr);
  if (learner == nullptr || learner->times_set() != left_at_) return;
  const std::string did = left_weights_.difference(WeightWatch::Of::parameters);
  if (!did.empty()) blame_all(did + in_step());
  // The last look at gradients was after the forward pass. Single parameters may get none, as where a step leaves out a
  // branch of the model.
  if (!weights_.has_new_gradient()) {
    blame_all("no parameter gets a gradient" + in_step(), "after its forward");
  }
  const std::string unreached = reached_.difference();
  if (!unreached.empty()) blame_all(unreached + in_step(), "after its forward");
  // The model may have been called once more in the backward pass. One of a user may move its buffers there itself.
  if (is_model_opaque_ || may_any_change()) return;
  const std::string moved = weights_.difference_of_buffers(/*may_be_as_at_begin=*/false);
  if (!moved.empty()) blame_all(moved + in_step());
}

void Extensions::check_state_of_step() const {
  if (!is_stepping_ || may_any_change()) return;
  const std::string did = ComputeState::now().difference(step_state_, ComputeState::Of::all);
  if (!did.empty()) blame_all(did + in_step());
}

// What a model of a user chooses by itself is not of an extension. One of ours chooses nothing: an operator has done it.
void Extensions::check_state_of_model(Learner& learner, const ComputeState& before) {
  const ComputeState after = ComputeState::now();
  if (learner.model().why_opaque().empty() && !may_any_change()) {
    const std::string did = after.difference(before, ComputeState::Of::all);
    if (!did.empty()) blame_all(did + (is_stepping_ ? in_step() : " outside of a step"));
  }
  step_state_.take_change(before, after);
}

void Extensions::check_weights() const {
  if (left_by_ == nullptr || is_in_backward_ || left_by_->times_set() != left_at_) return;
  std::string did = left_weights_.difference_in_numbers();
  if (did.empty()) did = left_weights_.difference_in_all_numbers(WeightWatch::Of::parameters);
  if (!did.empty()) blame_all(did + " after step " + std::to_string(step_));
}

void Extensions::abandon_step() {
  own_pass_.drop();
  if (!is_stepping_) return;
  is_stepping_ = false;
  is_in_backward_ = false;
  left_by_ = nullptr;  // the optimizer may have moved some of them
  drop_batch();
}

}  // namespace autotuned::trainer
