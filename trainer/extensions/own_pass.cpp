// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/own_pass.hpp"

#include <ATen/MemoryOverlap.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
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
// Remarks behind what differs.
constexpr const char* kHasMovedGenerators = " (it has moved LibTorch's random generator)";
constexpr const char* kIsRounding = " (it differs in rounding: declare it numerics)";

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
  // Under fp16, rounding decides which of two gradients overflows, and the optimizer leaves out such a step.
  bool may_overflow = false;
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
  const bool may_overflow = is_step && learner.settings().autocast == at::kHalf;
  const bool fits = fits_into_memory([&] {
    begun_ = std::make_unique<Begun>(Begun{.batch = copy_of(batch),
                                           .is_step = is_step,
                                           .may_overflow = may_overflow,
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
  const at::Device device = begun_->batch.images.device();
  const GeneratorStates left_generators(device);
  const Computed own = compute(learner, Weights::as_they_are);
  const bool has_moved = !GeneratorStates(device).equals(left_generators);
  const std::string remark = has_moved ? kHasMovedGenerators : "";
  std::string did = exact_fault(left, own);
  if (did.empty()) {
    if (begun_->is_step && are_finite(own.values)) ratios_.add(1.0);
    return did;
  }
  std::optional<Computed> again;
  if (asked == Closeness::equal && begun_->batch.images.is_cpu()) {
    again = compute(learner, Weights::as_they_are);
    if (exact_fault(*again, own).empty()) {
      if (has_moved) return did + remark;
      return near_fault(left, own, nullptr, nullptr).empty() ? did + kIsRounding : did;
    }
  }
  did = near_fault(left, own, nullptr, nullptr);
  const bool is_plainly_near = did.empty();
  if (!is_plainly_near) {
    // A job in 16 bits rounds its weights itself, so that to round them once more changes nothing.
    const bool is_in_16_bits = learner.settings().autocast.has_value();
    const Computed rounded = compute(learner, is_in_16_bits ? Weights::moved : Weights::rounded);
    did = near_fault(left, own, &rounded, nullptr);
    if (!did.empty()) {
      // A model may draw random numbers by a generator of its own.
      if (!again) again = compute(learner, Weights::as_they_are);
      did = near_fault(left, own, &rounded, &*again);
      if (!did.empty()) return did + remark;
      ++unrepeated_;
      if (!has_near_values(left, own, &rounded)) return did;
    }
  }
  if (!begun_->is_step) return did;
  did = parameter_fault(learner, left, own);
  if (did.empty() && is_plainly_near) did = steady_fault(left, own);
  return did.empty() ? did : did + remark;
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
  // What overflows does so in both.
  const auto is_same = [](const at::Tensor& one, const at::Tensor& other) {
    return are_equal({one}, {other}) || (!are_finite({one}) && !are_finite({other}));
  };
  const bool has_same_values = are_of_equal_sizes(left.values, own.values) &&
                               std::ranges::equal(left.values, own.values, is_same);
  if (!has_same_values) return other_values(left, own);
  for (std::size_t i = 0; i < own.buffers.size(); ++i)
    if (!are_equal({left.buffers[i]}, {own.buffers[i]})) return other_buffer(i);
  return {};
}

std::string OwnPass::near_fault(const Computed& left, const Computed& own, const Computed* rounded,
                                const Computed* again) const {
  if (!has_near_values(left, own, rounded)) {
    const bool is_repeated = again == nullptr || has_near_values(*again, own, nullptr);
    if (is_repeated) return other_values(left, own);
  }
  for (std::size_t i = 0; i < own.buffers.size(); ++i) {
    if (has_near_buffer(left, own, i, rounded)) continue;
    const bool is_repeated = again == nullptr || has_near_buffer(*again, own, i, nullptr);
    if (is_repeated) return other_buffer(i);
  }
  return {};
}

bool OwnPass::has_near_values(const Computed& left, const Computed& own,
                              const Computed* rounded) const {
  if (!are_of_equal_sizes(left.values, own.values)) return false;
  // Tensors in which the model by itself has other numbers than finite ones, or rounding makes them so, say nothing.
  TensorList values;
  TensorList own_values;
  TensorList rounded_values;
  for (std::size_t i = 0; i < own.values.size(); ++i) {
    if (!are_finite({own.values[i]})) continue;
    if (rounded != nullptr && !are_finite({rounded->values[i]})) continue;
    const bool is_finite = are_finite({left.values[i]});
    if (!is_finite && begun_->may_overflow) continue;
    if (!is_finite) return false;
    values.push_back(left.values[i]);
    own_values.push_back(own.values[i]);
    if (rounded != nullptr) rounded_values.push_back(rounded->values[i]);
  }
  if (values.empty()) return true;
  const Likeness likeness = likeness_of_values(values, own_values);
  // Rounding is all that is left of a gradient of zero, and of answers where all samples get nearly the same one.
  if (!std::isfinite(likeness.norm_ratio)) return !begun_->is_step || norm_of(own_values) == 0.0;
  if (!begun_->is_step && is_rounding(values.front(), own_values.front())) return true;
  const Likeness by_rounding =
      rounded != nullptr ? likeness_of_values(rounded_values, own_values) : Likeness();
  return is_near(likeness, by_rounding);
}

bool OwnPass::has_near_buffer(const Computed& left, const Computed& own, std::size_t buffer,
                              const Computed* rounded) const {
  const at::Tensor& numbers = left.buffers[buffer];
  const at::Tensor& own_numbers = own.buffers[buffer];
  if (are_equal({numbers}, {own_numbers})) return true;
  if (!own_numbers.is_floating_point()) return false;
  if (!are_finite({own_numbers})) return true;
  if (rounded != nullptr && !are_finite({rounded->buffers[buffer]})) return true;
  if (!are_finite({numbers})) return false;
  // Once running averages stand nearly still, what a step adds to them is nothing but rounding.
  if (is_rounding(numbers, own_numbers)) return true;
  const Likeness by_rounding =
      rounded != nullptr ? likeness_of_buffer(*rounded, own, buffer) : Likeness();
  return is_near(likeness_of_buffer(left, own, buffer), by_rounding);
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

std::string OwnPass::steady_fault(const Computed& left, const Computed& own) {
  if (!are_finite(left.values) || !are_finite(own.values)) return {};
  const double ratio = likeness_of(left.values, own.values).norm_ratio;
  if (!std::isfinite(ratio) || ratio <= 0.0) return {};
  ratios_.add(ratio);
  if (!ratios_.are_off()) return {};
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), " (norm %.3g times as long in the mean of ",
                ratios_.mean());
  return other_values() + text.data() + std::to_string(ratios_.count()) + " compared steps)";
}

Likeness OwnPass::likeness_of_values(const TensorList& left, const TensorList& own) const {
  if (begun_->is_step) return likeness_of(left, own);
  return likeness_of(left, own, common_part(own.front()));
}

Likeness OwnPass::likeness_of_buffer(const Computed& left, const Computed& own,
                                     std::size_t buffer) const {
  return likeness_of({left.buffers[buffer]}, {own.buffers[buffer]}, {begun_->before[buffer]});
}

std::string OwnPass::other_values(const Computed& left, const Computed& own) const {
  if (!are_of_equal_sizes(left.values, own.values)) return other_values() + " (of another size)";
  TensorList values;
  TensorList own_values;
  for (std::size_t i = 0; i < own.values.size(); ++i) {
    if (!are_finite({own.values[i]})) continue;
    values.push_back(left.values[i]);
    own_values.push_back(own.values[i]);
  }
  if (values.empty()) return other_values() + " (whose numbers are not finite)";
  if (!are_finite(values)) return other_values() + " (with numbers that are not finite)";
  return other_values(likeness_of_values(values, own_values), {});
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
