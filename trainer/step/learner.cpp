// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/learner.hpp"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>

#include <cassert>
#include <map>
#include <mutex>

#include "profiler/spans.hpp"
#include "trainer/models/call.hpp"
#include "trainer/models/model.hpp"
#include "trainer/models/workloads.hpp"

namespace autotuned::trainer {
namespace {

using profiler::Span;

// The same values, laid out as asked. The strides are spelled out: a tensor with one channel counts as
// contiguous in both formats, and LibTorch then goes by its strides.
at::Tensor in_format(const at::Tensor& tensor, bool is_channels_last) {
  if (tensor.dim() != 4) return tensor;
  const auto plain = c10::contiguous_strides(tensor.sizes());
  const std::vector<std::int64_t> strides =
      is_channels_last ? c10::get_channels_last_strides_2d(tensor.sizes())
                       : std::vector<std::int64_t>(plain.begin(), plain.end());
  if (tensor.strides() == at::IntArrayRef(strides)) return tensor;
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

at::Tensor generator_state(at::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(at::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

// Also when forward throws, training goes on in training mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(Model& model) : model_(model) { model_.eval(); }
  ~EvaluationMode() { model_.train(); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Model& model_;
};

// Makes copies that lie on the host.
class HostCopies {
 public:
  HostCopies(at::Device device, HostMemory memory)
      : device_(device), is_pinned_(memory == HostMemory::page_locked && !device.is_cpu()) {}

  at::Tensor copy(const at::Tensor& tensor) {
    const at::Tensor values = tensor.detach();
    if (values.is_cpu()) return values.clone();
    const at::Tensor pinned = is_pinned_ ? pinned_like(values) : at::Tensor();
    if (!pinned.defined()) return values.to(at::kCPU);
    is_copying_ = true;
    return pinned.copy_(values, /*non_blocking=*/true);
  }

  // All copies are whole on return.
  void finish() const {
    if (is_copying_) at::accelerator::synchronizeDevice(device_.index());
  }

 private:
  // Not defined where the system page-locks no more: then it goes on without.
  at::Tensor pinned_like(const at::Tensor& tensor) {
    try {
      return at::empty_strided(tensor.sizes(), tensor.strides(),
                               at::dtype(tensor.scalar_type()).pinned_memory(true));
    } catch (const c10::Error&) {
      is_pinned_ = false;
      return {};
    }
  }

  at::Device device_;
  bool is_pinned_;
  bool is_copying_ = false;
};

std::string state_name(const char* list, const std::string& parameter) {
  return std::string(list) + "/" + parameter;
}

using TensorsByName = std::map<std::string, at::Tensor, std::less<>>;

TensorsByName by_name(const NamedTensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

Result<LossFunction> loss_function(const recipes::Recipe& recipe, Workloads* workloads) {
  if (workloads != nullptr && recipe.loss == Workloads::kType) return workloads->loss(recipe.model);
  return loss_from(recipe.loss).map([](Loss loss) -> LossFunction {
    return [loss](const at::Tensor& logits, const at::Tensor& labels) {
      return loss_of(loss, logits, labels);
    };
  });
}

// Whether `saved` has these tensors, alike in shape and type.
bool holds(const TensorsByName& saved, const std::string& name, const at::Tensor& live) {
  const auto found = saved.find(name);
  return found != saved.end() && found->second.sizes() == live.sizes() &&
         found->second.scalar_type() == live.scalar_type();
}

}  // namespace

Learner::Learner(std::shared_ptr<Model> model, LossFunction loss, at::Device device)
    : model_(std::move(model)), loss_(std::move(loss)), device_(device), scaler_(device) {
  for (const auto& parameter : model_->named_parameters()) {
    names_.push_back(parameter.key());
    parameters_.push_back(parameter.value());
  }
  for (const auto& buffer : model_->named_buffers()) {
    buffers_.emplace_back(buffer.key(), buffer.value());
  }
}

Result<std::unique_ptr<Learner>> Learner::create(const recipes::Recipe& recipe,
                                                 input::SampleShape sample, at::Device device,
                                                 Workloads* workloads) {
  auto loss = loss_function(recipe, workloads);
  if (!loss) return tl::unexpected(loss.error());
  at::manual_seed(recipe.seed);
  auto model = workloads != nullptr && recipe.model.type == Workloads::kType
                   ? workloads->make_model(recipe.model, sample)
                   : make_model(recipe.model, sample);
  if (!model) return tl::unexpected(model.error());
  (*model)->to(device);
  std::unique_ptr<Learner> learner(new Learner(std::move(*model), std::move(*loss), device));
  auto optimizer = make_optimizer(recipe.optimizer, learner->parameters_);
  if (!optimizer) return tl::unexpected(optimizer.error());
  learner->optimizer_ = std::move(*optimizer);
  return learner;
}

void Learner::configure(const LearnerSettings& settings) {
  assert(!settings.is_graph || graph_ != nullptr);
  if (graph_ != nullptr && settings != settings_) graph_->drop();
  if (settings.is_channels_last != settings_.is_channels_last) {
    set_memory_format(settings.is_channels_last);
  }
  optimizer_->set_fused(settings.is_fused);
  settings_ = settings;
}

void Learner::set_forward(Forward forward) {
  if (graph_ != nullptr) graph_->drop();
  forward_ = std::move(forward);
}

void Learner::set_recorder(std::unique_ptr<GraphRecorder> recorder) {
  graph_ = std::make_unique<GraphStep>(std::move(recorder));
}

at::Tensor Learner::step(const DeviceBatch& batch, double learning_rate) {
  if (!settings_.is_graph) return whole_step(batch, learning_rate);
  // A recorded step is replayed without a call of forward.
  tell_labels(batch.labels);
  tell_images(batch.images);
  optimizer_->prepare_step_on_device(learning_rate);
  if (has_plain_steps_) return whole_step(batch, learning_rate);
  return graph_->step(batch,
                      {.work = [this](const DeviceBatch& one) { return whole_step(one, 0.0); },
                       .before_recording = [this] { drop_gradients(); },
                       .memory = memory()});
}

at::Tensor Learner::whole_step(const DeviceBatch& batch, double learning_rate) {
  if (!settings_.is_graph) tell_labels(batch.labels);
  {
    const Span span(profiler::span::kZeroGrad);
    zero_gradients();
  }
  at::Tensor loss;
  {
    const AutocastGuard autocast(device_.type(), settings_.autocast, !settings_.is_graph);
    at::Tensor logits;
    {
      const Span span(profiler::span::kForward);
      logits = forward(batch.images);
    }
    const Span span(profiler::span::kLoss);
    loss = compute_loss(logits, batch.labels);
  }
  {
    const Span span(profiler::span::kBackward);
    if (settings_.autocast == at::kHalf) {
      scaler_.scale(loss).backward();
    } else {
      loss.backward();
    }
  }
  {
    const Span span(profiler::span::kOptimizer);
    step_optimizer(learning_rate);
  }
  return loss.detach();
}

at::Tensor Learner::forward(const at::Tensor& images) {
  const Float32Scope scope(device_.type(), settings_.kept.modules);
  if (forward_) return forward_(images);
  if (!settings_.is_graph) tell_images(images);
  return call(model_, images);
}

void Learner::tell_labels(const at::Tensor& labels) const {
  if (input_watch_.labels) input_watch_.labels(labels);
}

void Learner::tell_images(const at::Tensor& images) const {
  if (!input_watch_.images) return;
  const at::NoGradGuard no_grad;
  const AutocastPause pause(device_.type());
  input_watch_.images(images);
}

at::Tensor Learner::compute_loss(const at::Tensor& logits, const at::Tensor& labels) {
  if (!settings_.kept.has_loss) return loss_(logits, labels);
  const AutocastPause pause(device_.type());
  return loss_(in_32_bit(logits), labels);
}

void Learner::zero_gradients() {
  if (settings_.set_to_none) {
    drop_gradients();
    return;
  }
  const std::vector<at::Tensor> all = gradients();
  if (all.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_zero_(all);
}

void Learner::step_optimizer(double learning_rate) {
  if (settings_.is_graph) {
    std::optional<at::Tensor> found_inf;
    if (settings_.autocast == at::kHalf) found_inf = scaler_.unscale_on_device(gradients());
    optimizer_->step_on_device(found_inf);
    return;
  }
  if (settings_.autocast == at::kHalf && !scaler_.unscale(gradients())) return;
  optimizer_->step(learning_rate);
}

at::Tensor Learner::outputs(const DeviceBatch& batch) {
  const at::NoGradGuard no_grad;
  const AutocastGuard autocast(device_.type(), settings_.autocast);
  const EvaluationMode evaluation_mode(*model_);
  return forward(batch.images).to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

Learner::Score Learner::score(const DeviceBatch& batch) {
  const at::NoGradGuard no_grad;
  const AutocastGuard autocast(device_.type(), settings_.autocast);
  const at::Tensor logits = [&] {
    const EvaluationMode evaluation_mode(*model_);
    return forward(batch.images);
  }();
  return {.loss_sum = compute_loss(logits, batch.labels).to(at::kDouble) *
                      static_cast<double>(batch.samples),
          .correct = logits.argmax(1).eq(batch.labels).sum()};
}

std::unique_ptr<Learner::GradientWatch> Learner::watch_gradients(
    std::function<void(std::size_t)> on_gradient) {
  return std::make_unique<GradientWatch>(parameters_, std::move(on_gradient));
}

Learner::GradientWatch::GradientWatch(std::vector<at::Tensor> parameters,
                                      std::function<void(std::size_t)> on_gradient)
    : parameters_(std::move(parameters)) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(parameters_[i].register_hook(
        [i, on_gradient](const at::Tensor& /*gradient*/) { on_gradient(i); }));
  }
}

Learner::GradientWatch::~GradientWatch() {
  for (std::size_t i = 0; i < hooks_.size(); ++i)
    parameters_[i].remove_hook(hooks_[i]);
}

Checkpoint Learner::capture(HostMemory memory) {
  const at::NoGradGuard no_grad;
  Checkpoint checkpoint;
  HostCopies host(device_, memory);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    checkpoint.parameters.emplace_back(names_[i], host.copy(parameters_[i]));
  }
  for (const auto& [name, buffer] : buffers_) {
    checkpoint.buffers.emplace_back(name, host.copy(buffer));
  }
  for (const Optimizer::StateList& list : optimizer_->state()) {
    for (std::size_t i = 0; i < list.tensors->size(); ++i) {
      const at::Tensor& tensor = (*list.tensors)[i];
      if (!tensor.defined()) continue;
      checkpoint.optimizer.emplace_back(state_name(list.name, names_[i]), host.copy(tensor));
    }
  }
  checkpoint.others.emplace_back("scaler/scale", host.copy(scaler_.scale_tensor()));
  checkpoint.others.emplace_back("scaler/growth", host.copy(scaler_.growth_tensor()));
  host.finish();
  checkpoint.others.emplace_back("generator/cpu", generator_state(at::kCPU));
  if (!device_.is_cpu()) {
    checkpoint.others.emplace_back("generator/device", generator_state(device_));
  }
  return checkpoint;
}

Result<void> Learner::restore(const Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  const TensorsByName parameters = by_name(checkpoint.parameters);
  const TensorsByName buffers = by_name(checkpoint.buffers);
  const TensorsByName optimizer = by_name(checkpoint.optimizer);
  const TensorsByName others = by_name(checkpoint.others);
  bool fits = parameters.size() == parameters_.size() && buffers.size() == buffers_.size();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    fits = fits && holds(parameters, names_[i], parameters_[i]);
  }
  for (const auto& [name, buffer] : buffers_)
    fits = fits && holds(buffers, name, buffer);
  fits = fits && holds(others, "scaler/scale", scaler_.scale_tensor()) &&
         holds(others, "scaler/growth", scaler_.growth_tensor()) &&
         others.contains("generator/cpu");
  if (!fits) return fail(ErrorKind::invalid, "the checkpoint is of another model");

  drop_gradients();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].copy_(parameters.at(names_[i]));
  }
  for (auto& [name, buffer] : buffers_)
    buffer.copy_(buffers.at(name));
  for (const Optimizer::StateList& list : optimizer_->state()) {
    for (std::size_t i = 0; i < list.tensors->size(); ++i) {
      at::Tensor& tensor = (*list.tensors)[i];
      const auto found = optimizer.find(state_name(list.name, names_[i]));
      if (found == optimizer.end()) {
        tensor.reset();
      } else if (tensor.defined()) {
        tensor.copy_(found->second);
      } else if (found->second.dim() == 0) {
        tensor = found->second.clone();  // a count, kept on the host
      } else {
        tensor = at::empty_like(parameters_[i]).copy_(found->second);
      }
    }
  }
  scaler_.scale_tensor().copy_(others.at("scaler/scale"));
  scaler_.growth_tensor().copy_(others.at("scaler/growth"));
  set_generator_state(at::kCPU, others.at("generator/cpu"));
  if (const auto found = others.find("generator/device"); found != others.end()) {
    if (!device_.is_cpu()) set_generator_state(device_, found->second);
  }
  return {};
}

std::vector<const void*> Learner::memory() {
  std::vector<const void*> all;
  const auto add = [&all](const at::Tensor& tensor) {
    all.push_back(tensor.defined() ? tensor.const_data_ptr() : nullptr);
  };
  for (const at::Tensor& parameter : parameters_)
    add(parameter);
  for (const auto& [name, buffer] : buffers_)
    add(buffer);
  for (const at::Tensor& tensor : optimizer_->state_on_device())
    add(tensor);
  add(scaler_.scale_tensor());
  add(scaler_.growth_tensor());
  return all;
}

void Learner::drop_step() {
  drop_gradients();
  if (graph_ != nullptr) graph_->drop();
}

void Learner::drop_gradients() {
  for (at::Tensor& parameter : parameters_)
    parameter.mutable_grad().reset();
}

void Learner::set_memory_format(bool is_channels_last) {
  const at::NoGradGuard no_grad;
  drop_gradients();
  for (at::Tensor& parameter : parameters_) {
    parameter.set_data(in_format(parameter.detach(), is_channels_last));
  }
  for (const Optimizer::StateList& list : optimizer_->state()) {
    for (at::Tensor& tensor : *list.tensors) {
      if (tensor.defined()) tensor = in_format(tensor, is_channels_last);
    }
  }
}

std::vector<at::Tensor> Learner::gradients() const {
  std::vector<at::Tensor> all;
  all.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) all.push_back(parameter.grad());
  }
  return all;
}

profiler::ModulePaths Learner::module_paths() const {
  profiler::ModulePaths paths;
  for (const auto& module : model_->named_modules("model"))
    paths.emplace(module.value().get(), module.key());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::size_t name = names_[i].rfind('.');
    paths.emplace(parameters_[i].unsafeGetTensorImpl(),
                  name == std::string::npos ? "model" : "model." + names_[i].substr(0, name));
  }
  return paths;
}

std::int64_t Learner::classes() const {
  return model_->classes();
}

std::int64_t Learner::parameter_count() const {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : parameters_)
    count += parameter.numel();
  return count;
}

std::int64_t Learner::parameter_bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& parameter : parameters_) {
    bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
  return bytes;
}

}  // namespace autotuned::trainer
