// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/weight_watch.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trainer/common/tensor_hash.hpp"
#include "trainer/extensions/places.hpp"

namespace autotuned::trainer {
namespace {

// One number in so many is of a buffer: few jobs have as many buffers as weights.
constexpr std::size_t kPlacesForOneBuffer = 4;

// 0 for a tensor whose numbers do not lie in a storage of its own, such as a sparse one.
std::uint64_t hash_of_numbers(const at::Tensor& tensor) {
  const bool is_plain =
      tensor.layout() == at::kStrided && tensor.has_storage() && !tensor.is_meta();
  return is_plain ? hash_of(tensor) : 0;
}

}  // namespace

void WeightWatch::watch(const torch::nn::Module& model) {
  watched_.clear();
  for (const auto& parameter : model.named_parameters())
    if (parameter.value().defined()) watched_.push_back({parameter.key(), parameter.value()});
  parameters_ = watched_.size();
  for (const auto& buffer : model.named_buffers())
    if (buffer.value().defined()) watched_.push_back({buffer.key(), buffer.value()});
  states_.resize(watched_.size());
  samples_.reserve(kPlaces);
  modules_.clear();
  modules_.push_back({.name = "", .module = &model});
  for (const auto& module : model.named_modules("", /*include_self=*/false))
    modules_.push_back({module.key(), module.value().get(), module.value()});
  hashes_.clear();
  is_drawn_for_all_ = false;
  buffer_places_.clear();
  buffer_numbers_.clear();
  take();
}

void WeightWatch::begin_step() {
  hashes_.clear();
  reads_device_ = draws_.takes_one_of(kStepsForOneOnDevice);
  is_drawn_for_all_ = draws_.takes_one_of(kStepsForAllNumbers) && !watched_.empty() &&
                      watched_.front().tensor.is_cpu();
}

void WeightWatch::take() {
  for (std::size_t i = 0; i < watched_.size(); ++i)
    states_[i] = state_of(watched_[i].tensor);
  for (WatchedModule& one : modules_)
    one.is_training = one.module->is_training();
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
    const std::int64_t place = draw_place_in(tensor);
    samples_.push_back({which, place, number_at(tensor, place)});
  }
}

void WeightWatch::take_gradients() {
  gradients_.resize(parameters_);
  for (std::size_t i = 0; i < parameters_; ++i)
    gradients_[i] = gradient_of(watched_[i].tensor);
}

void WeightWatch::take_all_numbers() {
  hashes_.clear();
  for (const Watched& one : watched_)
    hashes_.push_back(hash_of_numbers(one.tensor));
}

std::string WeightWatch::difference(Of of) const {
  const std::size_t count = count_of(of);
  for (std::size_t i = 0; i < count; ++i) {
    const State now = state_of(watched_[i].tensor);
    if (now == states_[i]) continue;
    if (now.is_trained == states_[i].is_trained) return "changes " + name_of(i);
    return (now.is_trained ? "trains the frozen " : "freezes ") + name_of(i);
  }
  const std::string modes = difference_of_modes();
  return modes.empty() ? difference_in_numbers(count) : modes;
}

std::string WeightWatch::difference_of_modes() const {
  for (const WatchedModule& one : modules_) {
    const bool is_training = one.module->is_training();
    if (is_training != one.is_training) return "puts " + module_in_mode(one.name, is_training);
  }
  return "";
}

std::string WeightWatch::difference_of_gradients() const {
  for (std::size_t i = 0; i < parameters_; ++i) {
    if (gradient_of(watched_[i].tensor) != gradients_[i]) {
      return "changes the gradient of " + name_of(i);
    }
  }
  return "";
}

bool WeightWatch::has_new_gradient() const {
  for (std::size_t i = 0; i < parameters_; ++i)
    if (gradient_of(watched_[i].tensor) != gradients_[i]) return true;
  return false;
}

std::string WeightWatch::difference_in_all_numbers(Of of) const {
  const std::size_t count = std::min(count_of(of), hashes_.size());
  for (std::size_t i = 0; i < count; ++i)
    if (hash_of_numbers(watched_[i].tensor) != hashes_[i]) return "changes " + name_of(i);
  return "";
}

void WeightWatch::begin_buffers() {
  buffer_places_.clear();
  buffer_numbers_.clear();
  const std::size_t buffers = watched_.size() - parameters_;
  std::size_t on_device = 0;
  for (std::size_t i = 0; i < std::min(buffers, kBuffers); ++i) {
    const std::size_t which = parameters_ + next_buffer_++ % buffers;
    const at::Tensor& tensor = watched_[which].tensor;
    if (!has_numbers(tensor, reads_device_ && on_device < kPlacesOnDevice)) continue;
    if (!tensor.is_cpu()) ++on_device;
    buffer_places_.push_back({which, draw_place_in(tensor)});
  }
  add_buffers();
}

void WeightWatch::add_buffers() {
  std::vector<Number> numbers;
  numbers.reserve(buffer_places_.size());
  for (const auto& [which, place] : buffer_places_) {
    const at::Tensor& tensor = watched_[which].tensor;
    const bool is_there = has_numbers(tensor, /*waits=*/true) && place < tensor.numel();
    numbers.push_back(is_there ? number_at(tensor, place) : Number{});
  }
  buffer_numbers_.push_back(std::move(numbers));
}

std::string WeightWatch::difference_of_buffers(bool may_be_as_at_begin) const {
  const std::size_t first = may_be_as_at_begin || model_calls() == 0 ? 0 : 1;
  for (std::size_t i = 0; i < buffer_places_.size(); ++i) {
    const auto& [which, place] = buffer_places_[i];
    bool is_known = false;
    // The latest is the most likely one.
    for (std::size_t time = buffer_numbers_.size(); time > first && !is_known; --time)
      is_known = is_at(which, place, buffer_numbers_[time - 1][i]);
    if (!is_known) return "changes " + name_of(which);
  }
  return {};
}

std::string WeightWatch::difference_in_numbers() const {
  return difference_in_numbers(parameters_);
}

std::string WeightWatch::difference_in_numbers(std::size_t count) const {
  const auto changed = std::ranges::find_if(samples_, [this, count](const Sample& sample) {
    return sample.tensor < count && !is_at(sample.tensor, sample.place, sample.number);
  });
  return changed == samples_.end() ? "" : "changes " + name_of(changed->tensor);
}

bool WeightWatch::is_at(std::size_t tensor, std::int64_t place, const Number& number) const {
  const at::Tensor& watched = watched_[tensor].tensor;
  // It may have become another one, of other size.
  if (!has_numbers(watched, /*waits=*/true) || place >= watched.numel()) return false;
  return number_at(watched, place) == number;
}

std::int64_t WeightWatch::draw_place_in(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(draws_.next() % static_cast<std::uint64_t>(tensor.numel()));
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
  // A sparse one has no storage.
  const void* const place =
      state.data != nullptr ? state.data : static_cast<const void*>(gradient.unsafeGetTensorImpl());
  return {.changes = state.changes, .data = place};
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

std::string module_in_mode(const std::string& name, bool is_training) {
  return (name.empty() ? "the model" : "module " + name) +
         (is_training ? " in training mode" : " in evaluation mode");
}

}  // namespace autotuned::trainer
