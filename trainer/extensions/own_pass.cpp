// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/own_pass.hpp"

#include <ATen/MemoryOverlap.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/api/module.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/common/generator_kept.hpp"
#include "trainer/common/guarded.hpp"
#include "trainer/common/precision.hpp"
#include "trainer/models/model.hpp"
#include "trainer/models/scripted.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

constexpr double kUnitOf16Bits = 1.0 / 128;  // of bfloat16, relative
// A gradient that is nothing but rounding may look alike in two passes by chance: not one of so many numbers, or of that
// share of the whole.
constexpr std::int64_t kTellingNumbers = 16;
constexpr double kTellingShare = 1e-2;

// False: memory lacks for the work.
template <class Work>
bool fits_into_memory(Work&& work) {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    if (!shortage_in(error)) throw;
    return false;
  }
}

at::Tensor copy_of(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return tensor.defined() ? tensor.detach().clone() : at::Tensor();
}

DeviceBatch copy_of(DeviceBatch batch) {
  batch.images = copy_of(batch.images);
  batch.labels = copy_of(batch.labels);
  return batch;
}

// For destructors. It fails only on a device that has failed before, and then nothing of it is used any more.
template <class Work>
void put_back(Work&& work) {
  try {
    work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "autotuned-trainer: a state cannot be put back: %s\n", error.what());
  }
}

// While one lives, the weights are multiplied by a factor and rounded to 16 bits; with 1 as by the trainer's request
// `round`.
class RoundedWeights {
 public:
  RoundedWeights(const Model& model, double factor) : parameters_(model.parameters()) {
    const at::NoGradGuard no_grad;
    TensorList rounded;
    for (const at::Tensor& parameter : parameters_) {
      const at::Tensor& whole = whole_.emplace_back(parameter.detach());
      const bool has_fractions = whole.is_floating_point();
      rounded.push_back(has_fractions ? rounded_to_bfloat16(whole.mul(factor)) : whole);
    }
    // From here on nothing takes memory.
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].set_data(rounded[i]);
    at::autocast::clear_cache();  // it knows a weight by its tensor, not by its numbers
  }
  ~RoundedWeights() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < whole_.size(); ++i)
      parameters_[i].set_data(whole_[i]);
    at::autocast::clear_cache();
  }
  RoundedWeights(const RoundedWeights&) = delete;
  RoundedWeights& operator=(const RoundedWeights&) = delete;

 private:
  TensorList parameters_;
  TensorList whole_;
};

// While one lives, a TorchScript model runs as it was read from its file, whatever extensions have made of it.
class OriginalScript {
 public:
  explicit OriginalScript(Model& model) : scripted_(dynamic_cast<Scripted*>(&model)) {
    if (scripted_ == nullptr) return;
    running_ = scripted_->running();
    is_other_ = running_._ivalue() != scripted_->original()._ivalue();
    if (is_other_) (void)scripted_->run(scripted_->original());
  }
  ~OriginalScript() {
    if (is_other_) put_back([this] { (void)scripted_->run(running_); });
  }
  OriginalScript(const OriginalScript&) = delete;
  OriginalScript& operator=(const OriginalScript&) = delete;

 private:
  Scripted* scripted_;
  torch::jit::Module running_;
  bool is_other_ = false;
};

TensorList copies_of(const TensorList& tensors) {
  TensorList copies;
  for (const at::Tensor& tensor : tensors)
    copies.push_back(copy_of(tensor));
  return copies;
}

void put(const TensorList& numbers, const TensorList& tensors) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    tensors[i].copy_(numbers[i]);
}

// Puts these numbers back at the end of its life.
class NumbersKept {
 public:
  NumbersKept(const TensorList& numbers, const TensorList& tensors)
      : numbers_(numbers), tensors_(tensors) {}
  ~NumbersKept() {
    put_back([this] { put(numbers_, tensors_); });
  }
  NumbersKept(const NumbersKept&) = delete;
  NumbersKept& operator=(const NumbersKept&) = delete;

 private:
  const TensorList& numbers_;
  const TensorList& tensors_;
};

// Whether all that differs may come from 16 bits.
bool is_rounding(const at::Tensor& left, const at::Tensor& own) {
  const at::NoGradGuard no_grad;
  return norm_of({left.to(at::kDouble) - own.to(at::kDouble)}) <=
         kUnitOf16Bits / 2 * norm_of({own});
}

// Answers without what all samples have in common, which may be much larger.
TensorList common_part(const at::Tensor& answer) {
  const at::NoGradGuard no_grad;
  const std::int64_t samples = 0;
  if (answer.dim() < 2 || answer.size(samples) < 2) return {};
  return {answer.detach().to(at::kFloat).mean(samples, /*keepdim=*/true)};
}

}  // namespace

struct OwnPass::Begun {
  DeviceBatch batch;  // copies; of an answer its images alone
  bool is_step = false;
  std::vector<std::string> names;  // of buffers
  TensorList buffers;
  TensorList before;  // copies of these
  GeneratorStates generators;
};

OwnPass::OwnPass() = default;
OwnPass::~OwnPass() = default;

bool OwnPass::takes_step(Repeats repeats) {
  switch (repeats) {
    case Repeats::never:
      return false;
    case Repeats::drawn:
      return draws_.takes_one_of(kStepsForOne);
    case Repeats::always:
      return true;
  }
  return false;
}

void OwnPass::begin_step(Learner& learner, const DeviceBatch& batch) {
  begin(learner, batch, /*is_step=*/true);
}

void OwnPass::begin_answer(Learner& learner, const at::Tensor& images) {
  DeviceBatch batch;
  batch.images = images;
  begin(learner, batch, /*is_step=*/false);
}

void OwnPass::begin(Learner& learner, const DeviceBatch& batch, bool is_step) {
  drop();
  const bool fits = fits_into_memory([&] {
    begun_ = std::make_unique<Begun>(Begun{.batch = copy_of(batch),
                                           .is_step = is_step,
                                           .names = {},
                                           .buffers = {},
                                           .before = {},
                                           .generators = GeneratorStates(batch.images.device())});
    for (const auto& buffer : learner.model().named_buffers()) {
      const at::Tensor& tensor = buffer.value();
      // Others have no numbers that could be put back.
      if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_meta()) continue;
      if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) continue;
      begun_->names.push_back(buffer.key());
      begun_->buffers.push_back(tensor);
    }
    begun_->before = copies_of(begun_->buffers);
  });
  if (fits) return;
  begun_.reset();
  lacks_memory_ = true;
}

void OwnPass::drop() {
  begun_.reset();
  lacks_memory_ = false;
}

std::string OwnPass::difference_of_step(Learner& learner, Closeness asked) {
  TensorList gradients;
  for (const at::Tensor& parameter : learner.model().parameters())
    gradients.push_back(parameter.grad());
  return difference(learner, std::move(gradients), asked);
}

std::string OwnPass::difference_of_answer(Learner& learner, const at::Tensor& answer,
                                          Closeness asked) {
  return difference(learner, {answer}, asked);
}

std::string OwnPass::difference(Learner& learner, TensorList values, Closeness asked) {
  std::string did;
  try {
    lacks_memory_ = !fits_into_memory([&] {
      const GeneratorsKept generators(begun_->batch.images.device());
      const Computed left{.values = std::move(values), .buffers = copies_of(begun_->buffers)};
      const NumbersKept buffers(left.buffers, begun_->buffers);
      const OriginalScript script(learner.model());
      did = judge(learner, left, asked);
    });
  } catch (const std::exception& error) {
    // With the extensions it has just worked.
    did = "leaves a model that fails without its forward (" + error_from(error, {}).what + ")";
  }
  return did;
}

std::string OwnPass::judge(Learner& learner, const Computed& left, Closeness asked) {
  const Computed own = compute(learner, Weights::as_they_are);
  std::string did = exact_fault(left, own);
  if (did.empty()) return did;
  if (asked == Closeness::equal && begun_->batch.images.is_cpu()) {
    const Computed again = compute(learner, Weights::as_they_are);
    if (exact_fault(again, own).empty()) return did;
  }
  did = near_fault(left, own, nullptr);
  if (!did.empty()) {
    // A job in 16 bits rounds its weights itself, so that to round them once more changes nothing.
    const bool is_in_16_bits = learner.settings().autocast.has_value();
    const Computed rounded = compute(learner, is_in_16_bits ? Weights::moved : Weights::rounded);
    did = near_fault(left, own, &rounded);
  }
  if (!did.empty() || !begun_->is_step) return did;
  return parameter_fault(learner, left, own);
}

OwnPass::Computed OwnPass::compute(Learner& learner, Weights weights) {
  put(begun_->before, begun_->buffers);
  begun_->generators.put_back();
  std::optional<RoundedWeights> rounded;
  if (weights != Weights::as_they_are) {
    rounded.emplace(learner.model(), weights == Weights::moved ? 1.0 + kUnitOf16Bits : 1.0);
  }
  Computed own;
  // The model may write into its images.
  if (begun_->is_step) {
    own.values = learner.own_gradients(copy_of(begun_->batch));
  } else {
    own.values = {learner.model().forward(copy_of(begun_->batch.images))};
  }
  own.buffers = copies_of(begun_->buffers);
  return own;
}

std::string OwnPass::exact_fault(const Computed& left, const Computed& own) const {
  // A step that overflows does so in both.
  const bool has_equal_values =
      are_equal(left.values, own.values) || (!are_finite(left.values) && !are_finite(own.values));
  if (!has_equal_values) return other_values(left, own);
  for (std::size_t i = 0; i < own.buffers.size(); ++i)
    if (!are_equal({left.buffers[i]}, {own.buffers[i]})) return other_buffer(i);
  return {};
}

std::string OwnPass::near_fault(const Computed& left, const Computed& own,
                                const Computed* rounded) const {
  if (!are_of_equal_sizes(left.values, own.values)) return other_values(left, own);
  // Rounding may decide which of two overflows, and it is all that is left of a gradient of zero.
  const Likeness values = likeness_of_values(left, own);
  const bool says_something =
      are_finite(left.values) && are_finite(own.values) && std::isfinite(values.norm_ratio);
  if (says_something && !is_rounding_of_answer(left, own)) {
    const Likeness by_rounding =
        rounded != nullptr ? likeness_of_values(*rounded, own) : Likeness();
    if (!is_near(values, by_rounding)) return other_values(left, own);
  }
  for (std::size_t i = 0; i < own.buffers.size(); ++i) {
    if (are_equal({left.buffers[i]}, {own.buffers[i]})) continue;
    if (!own.buffers[i].is_floating_point()) return other_buffer(i);
    if (!are_finite({left.buffers[i], own.buffers[i]})) continue;
    // Once running averages stand nearly still, what a step adds to them is nothing but rounding.
    if (is_rounding(left.buffers[i], own.buffers[i])) continue;
    const Likeness by_rounding =
        rounded != nullptr ? likeness_of_buffer(*rounded, own, i) : Likeness();
    if (!is_near(likeness_of_buffer(left, own, i), by_rounding)) return other_buffer(i);
  }
  return {};
}

// Where all samples get nearly the same answer, what is left of them is rounding.
bool OwnPass::is_rounding_of_answer(const Computed& left, const Computed& own) const {
  return !begun_->is_step && is_rounding(left.values.front(), own.values.front());
}

std::string OwnPass::parameter_fault(Learner& learner, const Computed& left, const Computed& own) {
  const double telling_norm = kTellingShare * norm_of(own.values);
  const auto likeness_in = [&own](const Computed& computed, std::size_t parameter) {
    return likeness_of({computed.values[parameter]}, {own.values[parameter]});
  };
  const auto is_near_in = [&](std::size_t parameter, const Likeness& by_rounding) {
    const bool has_direction = own.values[parameter].numel() > 1;
    return is_roughly_near(likeness_in(left, parameter), has_direction, by_rounding);
  };
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < own.values.size(); ++i) {
    const at::Tensor& gradient = own.values[i];
    if (!gradient.defined() || !are_finite({left.values[i], gradient})) continue;
    const double norm = norm_of({gradient});
    const bool is_telling =
        norm > 0.0 && (gradient.numel() >= kTellingNumbers || norm >= telling_norm);
    if (is_telling && !is_near_in(i, {})) others.push_back(i);
  }
  if (others.empty()) return {};
  const Computed moved = compute(learner, Weights::moved);
  const Computed again = compute(learner, Weights::as_they_are);
  for (const std::size_t i : others) {
    // A model may draw random numbers by a generator of its own.
    const bool is_repeated = is_near(likeness_in(again, i), {});
    if (is_repeated && !is_near_in(i, likeness_in(moved, i))) {
      const std::string name = learner.model().named_parameters()[i].key();
      return other_values(likeness_in(left, i), "of parameter " + name + ": ");
    }
  }
  return {};
}

Likeness OwnPass::likeness_of_values(const Computed& left, const Computed& own) const {
  if (begun_->is_step) return likeness_of(left.values, own.values);
  return likeness_of(left.values, own.values, common_part(own.values.front()));
}

Likeness OwnPass::likeness_of_buffer(const Computed& left, const Computed& own,
                                     std::size_t buffer) const {
  return likeness_of({left.buffers[buffer]}, {own.buffers[buffer]}, {begun_->before[buffer]});
}

std::string OwnPass::other_values(const Computed& left, const Computed& own) const {
  if (!are_of_equal_sizes(left.values, own.values)) return other_values() + " (of another size)";
  return other_values(likeness_of_values(left, own), {});
}

std::string OwnPass::other_values(const Likeness& likeness, const std::string& where) const {
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "norm %.3g times as long, cosine %.3f)",
                likeness.norm_ratio, likeness.cosine);
  return other_values() + " (" + where + text.data();
}

std::string OwnPass::other_values() const {
  const std::string values =
      begun_->is_step ? "the gradients are" : "the answers in an evaluation are";
  return values + " not those of the model's own forward";
}

std::string OwnPass::other_buffer(std::size_t buffer) const {
  return "leaves other numbers in buffer " + begun_->names[buffer] +
         " than the model's own forward";
}

}  // namespace autotuned::trainer
