// SPDX-License-Identifier: Apache-2.0
// Whether the targets of the data, the model and the loss go together.
#include <algorithm>
#include <string>
#include <utility>

#include "recipes/targets.hpp"
#include "trainer/input/datasets/class_names.hpp"
#include "trainer/job/job_state.hpp"

namespace autotuned::trainer {
namespace {

// "3 numbers".
std::string text_of(const input::TargetType& target) {
  return std::to_string(target.width) + (target.width == 1 ? " number" : " numbers");
}

Error too_many_classes(const input::Dataset& data, std::int64_t most) {
  std::string what = "the data has " + std::to_string(data.classes()) + " classes, the model " +
                     std::to_string(most);
  for (std::int64_t i = 0; i < data.size(); ++i) {
    if (data.label(i) < most) continue;
    what += ": " + data.name(i) + " has the label " + std::to_string(data.label(i));
    break;
  }
  return {ErrorKind::invalid, std::move(what), "model", "set classes of the model"};
}

}  // namespace

Result<void> Job::State::check_test_targets() const {
  const input::TargetType train = train_data_->target();
  const input::TargetType test = test_data_->target();
  if (train == test) return {};
  if (train.is_class() || test.is_class()) {
    return fail(ErrorKind::invalid,
                std::string("the targets are ") + (test.is_class() ? "classes" : "numbers") +
                    ", and those of the training data are " +
                    (train.is_class() ? "classes" : "numbers"),
                "evaluate.data", "use the same type of data as in data");
  }
  return fail(
      ErrorKind::invalid,
      "a sample has " + text_of(test) + ", and one of the training data has " + text_of(train),
      "evaluate.data", "give as many for each sample");
}

Result<void> Job::State::check_targets(std::int64_t outputs) const {
  const input::TargetType target = train_data_->target();
  const std::vector<std::string> losses =
      recipes::losses_of(target.is_class() ? recipes::Target::classes : recipes::Target::numbers);
  if (std::ranges::find(losses, recipe_.loss) == losses.end()) {
    return fail(ErrorKind::invalid,
                std::string("the targets of the data are ") +
                    (target.is_class() ? "classes" : "numbers") + ", and " + recipe_.loss +
                    " is not for these",
                "loss");
  }
  if (!target.is_class()) {
    if (target.width == outputs) return {};
    return fail(ErrorKind::invalid,
                "a sample of the data has " + text_of(target) + ", and the model " +
                    std::to_string(outputs) + (outputs == 1 ? " output" : " outputs"),
                "model", "set classes of the model, the width of its output");
  }
  if (outputs < 2) {
    return fail(ErrorKind::invalid, "it has one output, which cannot tell classes apart", "model",
                "give it an output for each class");
  }
  for (const input::Dataset* one : {train_data_.get(), test_data_.get()}) {
    if (one != nullptr && one->classes() > outputs) {
      return tl::unexpected(too_many_classes(*one, outputs));
    }
  }
  return {};
}

}  // namespace autotuned::trainer
