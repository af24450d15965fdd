// SPDX-License-Identifier: Apache-2.0
// Steps and answers of extensions that are compared with those of the model alone.
#include "trainer/extensions/extensions.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {

bool Extensions::takes_repeat(Repeats repeats) {
  own_pass_.drop();
  return !may_any_change() && own_pass_.takes_step(repeats);
}

void Extensions::begin_repeat(Learner& learner, const DeviceBatch& batch) {
  own_pass_.begin_step(learner, batch);
}

void Extensions::check_repeat(Learner& learner) {
  if (!own_pass_.has_begun()) return;
  const std::string did = own_pass_.difference_of_step(learner, closeness_);
  own_pass_.drop();
  if (!did.empty()) blame_all(did + in_step(), "forward");
}

at::Tensor Extensions::answer(Learner& learner, const Forward& whole, const at::Tensor& images) {
  const bool is_compared = answers_.takes_next() && !may_any_change();
  if (!is_compared) return whole(images);
  own_pass_.begin_answer(learner, images);
  at::Tensor logits = whole(images);
  if (!own_pass_.has_begun()) return logits;
  const std::string did = own_pass_.difference_of_answer(learner, logits, closeness_);
  own_pass_.drop();
  if (!did.empty()) blame_all(did, "forward");
  return logits;
}

}  // namespace autotuned::trainer
