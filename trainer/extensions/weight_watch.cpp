// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/weight_watch.hpp"

#include <ATen/core/grad_mode.h>
#include <sys/random.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "trainer/extensions/places.hpp"

namespace autotuned::trainer {
namespace {

// One number in so many is of a buffer: few jobs have as many buffers as weights.
constexpr std::size_t kPlacesForOneBuffer = 4;

}  // namespace

WeightWatch::WeightWatch() {
  // Nobody can know the places beforehand. Without the kernel's generator, the clock must do.
  const auto bytes = static_cast<ssize_t>(sizeof(draws_));
  if (::getrandom(&draws_, sizeof(draws_), GRND_NONBLOCK) == bytes) return;
  draws_ = static_cast<std::uint64_t>(
      std::chrono::high_resolution_clock::now().time_since_epoch().count());
}

void WeightWatch::watch(const torch::nn::Module& model) {
  watched_.clear();
  for (const auto& parameter : model.named_parameters())
    if (parameter.value().defined()) watched_.push_back({parameter.key(), parameter.value()});
  parameters_ = watched_.size();
  for (const auto& buffer : model.named_buffers())
    if (buffer.value().defined()) watched_.push_back({buffer.key(), buffer.value()});
  states_.resize(watched_.size());
  samples_.reserve(kPlaces);
  take();
}

void WeightWatch::begin_step() {
  reads_device_ = drawn() % kStepsForOneOnDevice == 0;
}

void WeightWatch::take() {
  for (std::size_t i = 0; i < watched_.size(); ++i)
    states_[i] = state_of(watched_[i].tensor);
  samples_.clear();
  const std::size_t buffers = watched_.size() - parameters_;
  std::size_t on_device = 0;
  for (std::size_t i = 1; i <= kPlaces && !watched_.empty(); ++i) {
    const bool is_buffer = parameters_ == 0 || (buffers > 0 && i % kPlacesForOneBuffer == 0);
    const std::size_t which =
        is_buffer ? parameters_ + next_buffer_++ % buffers : next_parameter_++ % parameters_;
    const at::Tensor& tensor = watched_[which].tensor;
    if (!has_numbers(tensor, reads_device_ && on_device < kPlacesOnDevice)) continue;
    if (!tensor.is_cpu()) ++on_device;
    const auto place =
        static_cast<std::int64_t>(drawn() % static_cast<std::uint64_t>(tensor.numel()));
    samples_.push_back({which, place, number_at(tensor, place)});
  }
}

void WeightWatch::take_gradients() {
  gradients_.resize(parameters_);
  for (std::size_t i = 0; i < parameters_; ++i)
    gradients_[i] = gradient_of(watched_[i].tensor);
}

std::string WeightWatch::difference(Of of) const {
  const std::size_t count = of == Of::all ? watched_.size() : parameters_;
  for (std::size_t i = 0; i < count; ++i) {
    const State now = state_of(watched_[i].tensor);
    if (now == states_[i]) continue;
    if (now.is_trained == states_[i].is_trained) return "changes " + name_of(i);
    return (now.is_trained ? "trains the frozen " : "freezes ") + name_of(i);
  }
  return difference_in_numbers(count);
}

std::string WeightWatch::difference_of_gradients() const {
  for (std::size_t i = 0; i < parameters_; ++i) {
    if (gradient_of(watched_[i].tensor) != gradients_[i]) {
      return "changes the gradient of " + name_of(i);
    }
  }
  return "";
}

std::string WeightWatch::difference_in_numbers() const {
  return difference_in_numbers(parameters_);
}

std::string WeightWatch::difference_in_numbers(std::size_t count) const {
  const auto changed = std::ranges::find_if(samples_, [this, count](const Sample& sample) {
    if (sample.tensor >= count) return false;
    const at::Tensor& tensor = watched_[sample.tensor].tensor;
    // It may have become another one, of other size.
    if (!has_numbers(tensor, /*waits=*/true) || sample.place >= tensor.numel()) return true;
    return number_at(tensor, sample.place) != sample.number;
  });
  return changed == samples_.end() ? "" : "changes " + name_of(changed->tensor);
}

WeightWatch::State WeightWatch::state_of(const at::Tensor& tensor) {
  const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
  return {.changes = counter.enabled() ? counter.current_version() : 0,
          .data = tensor.has_storage() ? tensor.const_data_ptr() : nullptr,
          .is_trained = tensor.requires_grad()};
}

WeightWatch::Gradient WeightWatch::gradient_of(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return {};
  const State state = state_of(gradient);
  return {.changes = state.changes, .data = state.data};
}

bool WeightWatch::has_numbers(const at::Tensor& tensor, bool waits) {
  return can_be_read(tensor) || (waits && tensor.is_cuda() && tensor.layout() == at::kStrided &&
                                 tensor.has_storage() && tensor.numel() > 0);
}

WeightWatch::Number WeightWatch::number_at(const at::Tensor& tensor, std::int64_t place) {
  if (!tensor.is_cpu()) {
    const at::NoGradGuard no_grad;
    const std::int64_t offset = tensor.storage_offset() + offset_of(tensor, place);
    return number_at(tensor.detach().as_strided({}, {}, offset).to(at::kCPU), 0);
  }
  const std::size_t bytes = tensor.itemsize();
  Number number{};
  std::memcpy(number.data(),
              static_cast<const std::byte*>(tensor.const_data_ptr()) +
                  static_cast<std::size_t>(offset_of(tensor, place)) * bytes,
              std::min(bytes, number.size()));
  return number;
}

std::string WeightWatch::name_of(std::size_t tensor) const {
  return (tensor < parameters_ ? "parameter " : "buffer ") + watched_[tensor].name;
}

// SplitMix64: each number of the sequence is drawn with equal probability.
std::uint64_t WeightWatch::drawn() {
  draws_ += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = draws_;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

}  // namespace autotuned::trainer
