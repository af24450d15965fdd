// SPDX-License-Identifier: Apache-2.0
// Steps and answers of extensions that are compared with those of the model alone.
#include <utility>

#include "trainer/common/plugin_error.hpp"
#include "trainer/extensions/extensions.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {

bool Extensions::takes_repeat(Repeats repeats) {
  own_pass_.drop();
  is_last_repeated_ = repeats == Repeats::always;
  return !may_any_change() && own_pass_.takes_step(repeats);
}

void Extensions::begin_repeat(Learner& learner, const DeviceBatch& batch) {
  own_pass_.begin_step(learner, batch);
  is_repeated_on_cpu_ = batch.images.is_cpu();
}

void Extensions::check_repeat(Learner& learner) {
  if (own_pass_.has_begun()) {
    const std::string did = own_pass_.difference_of_step(learner, closeness_);
    if (!did.empty()) {
      own_pass_.drop();
      blame_all(did + in_step(), "forward");
    }
  }
  end_repeat(is_repeated_on_cpu_, is_last_repeated_);
}

at::Tensor Extensions::answer(Learner& learner, const Forward& whole, const at::Tensor& images) {
  const bool is_compared = answers_.takes_next() && !may_any_change();
  if (!is_compared) return whole(images);
  own_pass_.begin_answer(learner, images);
  at::Tensor logits = whole(images);
  if (own_pass_.has_begun()) {
    const std::string did = own_pass_.difference_of_answer(learner, logits, closeness_);
    if (!did.empty()) {
      own_pass_.drop();
      blame_all(did, "forward");
    }
  }
  end_repeat(images.is_cpu(), /*is_last=*/false);
  return logits;
}

// An extension can bring a lack of memory about, or pretend it. On a CPU it hardly ever comes by itself: memory is taken
// there only when it is written to.
void Extensions::end_repeat(bool is_on_cpu, bool is_last) {
  const bool lacks_memory = own_pass_.lacks_memory();
  own_pass_.drop();
  if (own_pass_.unrepeated() > 0 && !std::exchange(has_warned_of_unrepeated_, true)) {
    warning_ = Error{ErrorKind::unsupported,
                     all_applied().who + ": a comparison with the model alone" + in_step() +
                         " says nothing, because the model does not compute the same twice",
                     {},
                     "let the model draw its random numbers from LibTorch's generators"};
  }
  if (!lacks_memory) return;
  Suspects all = all_applied();
  const std::string what = all.who + ": memory lacks for a comparison with the model alone";
  if (is_on_cpu) throw PluginError(what + in_step(), std::move(all.names));
  bool& has_warned = is_last ? has_warned_of_last_ : has_warned_;
  if (std::exchange(has_warned, true)) return;
  warning_ = Error{ErrorKind::out_of_memory, what + in_step() + ", so it was left out", {}, {}};
}

}  // namespace autotuned::trainer
