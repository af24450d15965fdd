// SPDX-License-Identifier: Apache-2.0
// Whether the targets of the data, the model and the loss go together.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "recipes/targets.hpp"
#include "trainer/input/common/sample.hpp"
#include "trainer/input/datasets/class_names.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/models/model.hpp"

namespace autotuned::trainer {
namespace {

recipes::Target target_of(const input::TargetType& type) {
  switch (type.kind) {
    case input::TargetKind::class_number:
      return recipes::Target::classes;
    case input::TargetKind::numbers:
      return recipes::Target::numbers;
    case input::TargetKind::class_mask:
      return recipes::Target::masks;
    case input::TargetKind::next_tokens:
      return recipes::Target::tokens;
    case input::TargetKind::tags:
      break;
  }
  return recipes::Target::tags;
}

// "classes".
std::string name_of(const input::TargetType& type) {
  return std::string(recipes::name_of(target_of(type)));
}

// "3 numbers", "1 tag".
std::string text_of(const input::TargetType& type) {
  std::string name = name_of(type);
  if (type.width == 1) name.pop_back();
  return std::to_string(type.width) + " " + name;
}

std::string named(std::span<const std::string> names) {
  return names.empty() ? "have no names" : "are " + input::named({names.begin(), names.end()});
}

Error too_many_classes(const input::Dataset& data, std::int64_t most) {
  std::string what = "the data has " + std::to_string(data.classes()) + " classes, the model " +
                     std::to_string(most);
  for (std::int64_t i = 0; data.target().is_class() && i < data.size(); ++i) {
    if (data.label(i) < most) continue;
    what += ": " + data.name(i) + " has the label " + std::to_string(data.label(i));
    break;
  }
  return {ErrorKind::invalid, std::move(what), "model", "set classes of the model"};
}

}  // namespace

Result<void> Job::State::check_test_targets() {
  const input::TargetType train = train_data_->target();
  const input::TargetType test = test_data_->target();
  if (train.kind != test.kind) {
    return fail(ErrorKind::invalid,
                "the targets are " + name_of(test) + ", and those of the training data are " +
                    name_of(train),
                "evaluate.data", "use data with such targets");
  }
  if (train.has_tokens() && train_data_->has_bytes() != test_data_->has_bytes()) {
    warnings_.push_back({ErrorKind::invalid,
                         train_data_->has_bytes()
                             ? "these are numbers of tokens, and the training data are bytes"
                             : "these are bytes, and the training data are numbers of tokens",
                         "evaluate.data", "write both in the same way"});
  }
  const std::span<const std::string> names = test_data_->class_names();
  const std::span<const std::string> of_training = train_data_->class_names();
  // Without names nothing can be compared.
  const std::string what = train.is_mask() ? "classes" : "tags";
  if ((train.kind == input::TargetKind::tags || train.is_mask()) &&
      !std::ranges::equal(names, of_training)) {
    return fail(
        ErrorKind::invalid,
        "the " + what + " " + named(names) + "; those of the training data " + named(of_training),
        "evaluate.data", "name the same " + what + " in both, or in none");
  }
  if (train.is_mask() && test_data_->classes() != train_data_->classes()) {
    return fail(ErrorKind::invalid,
                "the masks have " + std::to_string(test_data_->classes()) +
                    " classes, and those of the training data " +
                    std::to_string(train_data_->classes()),
                "evaluate.data", "give both the same classes");
  }
  if (train == test) return {};
  return fail(
      ErrorKind::invalid,
      "a sample has " + text_of(test) + ", and one of the training data has " + text_of(train),
      "evaluate.data", "give as many for each sample");
}

void Job::State::warn_of_alike_names() {
  if (target_of(train_data_->target()) == recipes::Target::numbers) return;
  std::string alike = input::alike_names_text(train_data_->class_names());
  if (alike.empty()) return;
  warnings_.push_back({ErrorKind::invalid, std::move(alike), "data",
                       "write one name in one way, if they are meant to be one"});
}

Result<void> Job::State::check_targets(std::int64_t outputs) const {
  const input::TargetType target = train_data_->target();
  const std::vector<std::string> losses = recipes::losses_of(target_of(target));
  if (std::ranges::find(losses, recipe_.loss) == losses.end()) {
    return fail(ErrorKind::invalid,
                "the targets of the data are " + name_of(target) + ", and " + recipe_.loss +
                    " is not for these",
                "loss");
  }
  if (mix_rules().is_on() && target.is_mask()) {
    return fail(
        ErrorKind::invalid,
        "mixup_alpha and cutmix_alpha mix the classes of whole samples, and the targets are "
        "masks",
        "train", "leave them out");
  }
  if (mix_rules().is_on() && recipe_.loss != "cross_entropy") {
    return fail(ErrorKind::invalid, "mixup_alpha and cutmix_alpha are for the loss cross_entropy",
                "train", "leave them out");
  }
  if (target.has_tokens()) return check_tokens(outputs);
  const bool gives_maps = learner_->model().gives_maps();
  if (target.is_mask() && !gives_maps) {
    return fail(ErrorKind::invalid,
                "the targets of the data are masks, and it classifies whole samples", "model",
                "use unet, or let forward return logits (samples, classes, rows, columns)");
  }
  if (!target.is_mask() && gives_maps) {
    return fail(ErrorKind::invalid,
                "it classifies every pixel, and the targets of the data are " + name_of(target),
                "model", "use data with masks, such as image_masks");
  }
  if (gives_maps && outputs > input::kMaxMaskClasses) {
    return fail(ErrorKind::invalid,
                "it has " + std::to_string(outputs) + " outputs, and masks have at most " +
                    std::to_string(input::kMaxMaskClasses) + " classes",
                "model", "set classes of the model");
  }
  if (!target.is_class() && !target.is_mask()) {
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

Result<void> Job::State::check_tokens(std::int64_t outputs) const {
  if (mix_rules().is_on()) {
    return fail(ErrorKind::invalid,
                "mixup_alpha and cutmix_alpha mix pictures, and the samples are tokens", "train",
                "leave them out");
  }
  for (const input::Dataset* one : {train_data_.get(), test_data_.get()}) {
    if (one == nullptr || one->classes() <= outputs) continue;
    return fail(ErrorKind::invalid,
                std::string("the vocabulary of the ") +
                    (one == train_data_.get() ? "data" : "test data") + " is " +
                    std::to_string(one->classes()) + ", that of the model " +
                    std::to_string(outputs),
                "model", "set vocabulary of the model");
  }
  return {};
}

Result<recipes::Recipe> Job::State::fitted_recipe() const {
  const input::TargetType target = train_data_->target();
  recipes::Recipe fitted = recipe_;
  Json& parameters = fitted.model.parameters;
  if (target.has_tokens() != (fitted.model.type == recipes::kTokenModel)) {
    return fail(ErrorKind::invalid,
                target.has_tokens()
                    ? fitted.model.type + " takes pictures, and the data are tokens"
                    : fitted.model.type + " takes tokens, and the data are pictures",
                "model",
                target.has_tokens() ? std::string("use the model ") + recipes::kTokenModel
                                    : "use data of type tokens");
  }
  if (!target.has_tokens()) return fitted;
  // A token that the training data lack may be in the test data.
  const int vocabulary =
      std::max(train_data_->classes(), test_data_ != nullptr ? test_data_->classes() : 0);
  for (const auto& [name, value] :
       {std::pair{"context", target.width}, std::pair{"vocabulary", vocabulary}}) {
    if (member(parameters, name).is_null()) parameters[name] = value;
  }
  return fitted;
}

}  // namespace autotuned::trainer
