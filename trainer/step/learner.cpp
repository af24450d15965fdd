// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/learner.hpp"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "profiler/spans.hpp"
#include "trainer/models/call.hpp"
#include "trainer/models/model.hpp"
#include "trainer/models/workloads.hpp"
#include "trainer/step/gradient_limits.hpp"
#include "trainer/step/model_start.hpp"

namespace autotuned::trainer {
namespace {

using profiler::Span;

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

Result<LossFunction> loss_function(const recipes::Recipe& recipe, const LossOptions& options,
                                   Workloads* workloads) {
  if (workloads != nullptr && recipe.loss == Workloads::kType) {
    const bool is_named = recipe.loss_parameters.contains("plugin");
    return workloads->loss(is_named ? recipes::Component{recipe.loss, recipe.loss_parameters}
                                    : recipe.model);
  }
  return loss_from(recipe.loss).map([&options](Loss loss) -> LossFunction {
    return [loss, options](const at::Tensor& logits, const at::Tensor& labels) {
      return loss_of(loss, logits, labels, options);
    };
  });
}

constexpr std::int64_t kMaskDimensions = 3;  // samples, rows, columns

// The losses of single samples, so that they do not depend on the batch size; and the number of samples.
std::pair<at::Tensor, at::Tensor> sum_over_masks(const LossFunction& loss, const at::Tensor& logits,
                                                 const at::Tensor& labels) {
  at::Tensor sum = at::zeros({}, logits.options().dtype(at::kDouble));
  at::Tensor counted = at::zeros({}, labels.options());
  for (std::int64_t i = 0; i < labels.size(0); ++i) {
    const at::Tensor mask = labels.narrow(0, i, 1);
    const at::Tensor counts = mask.ne(static_cast<std::int64_t>(input::kNoClass)).any();
    const at::Tensor one = loss(logits.narrow(0, i, 1), mask).to(at::kDouble);
    sum = sum + one.masked_fill(counts.logical_not(), 0.0);
    counted = counted + counts;
  }
  return {sum, counted};
}

// The part of the outputs that a check compares. Of a large map, only some pixels, which a change affects like the
// others. Of tokens, the last one, which depends on all: all outputs of a large vocabulary would take too much memory.
at::Tensor part_to_keep(const at::Tensor& outputs) {
  constexpr std::int64_t kMaxSide = 64;
  if (outputs.dim() == 3) return outputs.select(1, outputs.size(1) - 1);
  if (outputs.dim() != 4) return outputs;
  const auto step = [](std::int64_t side) { return (side + kMaxSide - 1) / kMaxSide; };
  return outputs.slice(2, 0, outputs.size(2), step(outputs.size(2)))
      .slice(3, 0, outputs.size(3), step(outputs.size(3)));
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
  const LossOptions test_options = evaluation_options_from(recipe.loss_parameters);
  auto test_loss = loss_function(recipe, test_options, workloads);
  if (!test_loss) return tl::unexpected(test_loss.error());
  at::manual_seed(recipe.seed);
  auto model = workloads != nullptr && recipe.model.type == Workloads::kType
                   ? workloads->make_model(recipe.model, sample)
                   : make_model(recipe.model, sample);
  if (!model) return tl::unexpected(model.error());
  if (auto started = start_as(recipe.model, **model); !started) {
    return tl::unexpected(started.error());
  }
  (*model)->to(device);
  const auto options = loss_options_from(recipe.loss_parameters, (*model)->classes(), device);
  if (!options) return tl::unexpected(options.error());
  auto loss = loss_function(recipe, *options, workloads);
  if (!loss) return tl::unexpected(loss.error());
  std::unique_ptr<Learner> learner(new Learner(std::move(*model), std::move(*loss), device));
  learner->test_loss_ = std::move(*test_loss);
  learner->rules_ = recipe.step_rules;
  auto groups = make_groups(recipe.optimizer, learner->parameters_);
  if (!groups) return tl::unexpected(groups.error());
  learner->groups_ = std::move(*groups);
  if (recipe.step_rules.ema_decay) {
    learner->average_ =
        std::make_unique<WeightAverage>(*recipe.step_rules.ema_decay, learner->parameters_);
  }
  return learner;
}

void Learner::configure(const LearnerSettings& settings) {
  assert(!settings.is_graph || graph_ != nullptr);
  if (graph_ != nullptr && settings != settings_) graph_->drop();
  if (settings.is_channels_last != settings_.is_channels_last) {
    reducer_.reset();
    set_memory_format(settings.is_channels_last);
  }
  if (settings.reducer != settings_.reducer && reducer_ != nullptr) {
    reducer_.reset();
    drop_gradients();  // which may be views of its buckets
  }
  for (const ParameterGroup& group : groups_)
    group.optimizer->set_fused(settings.is_fused);
  settings_ = settings;
}

void Learner::set_forward(Forward forward) {
  if (graph_ != nullptr) graph_->drop();
  forward_ = std::move(forward);
}

void Learner::set_recorder(std::unique_ptr<GraphRecorder> recorder) {
  graph_ = std::make_unique<GraphStep>(std::move(recorder));
}

void Learner::join(RankGroup& group) {
  assert(!settings_.is_graph);
  ranks_ = &group;
}

void Learner::take_state_from_leader() {
  assert(ranks_ != nullptr);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> all = buffer_tensors();
  for (const at::Tensor& parameter : parameters_)
    all.push_back(parameter.detach());
  take_tensors_from_leader(*ranks_, all);
  ++times_set_;
}

std::vector<at::Tensor> Learner::buffer_tensors() const {
  std::vector<at::Tensor> all;
  for (const auto& [name, buffer] : buffers_)
    all.push_back(buffer);
  return all;
}

void Learner::begin_shared_step() {
  if (reducer_ == nullptr) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].requires_grad()) names.push_back(names_[i]);
    reducer_ =
        std::make_unique<GradientReducer>(*ranks_, trained_parameters(), names, settings_.reducer);
  }
  const at::NoGradGuard no_grad;
  take_tensors_from_leader(*ranks_, buffer_tensors());
  reducer_->begin_step();
}

at::Tensor Learner::step(const DeviceBatch& batch, double learning_rate) {
  at::Tensor loss = plain_or_recorded_step(batch, rate_without_gradients_.value_or(learning_rate));
  if (average_ != nullptr) average_->update();
  return loss;
}

at::Tensor Learner::plain_or_recorded_step(const DeviceBatch& batch, double learning_rate) {
  if (!settings_.is_graph) return whole_step(batch, learning_rate);
  // A recorded step is replayed without a call of forward.
  tell_labels(batch.labels);
  if (input_watch_.images) {
    for (const at::Tensor& part : parts_of(batch.images))
      tell_images(part);
  }
  for (const ParameterGroup& group : groups_)
    group.optimizer->prepare_step_on_device(learning_rate);
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
  if (ranks_ != nullptr) begin_shared_step();
  const at::Tensor loss = rules_.accumulate > 1
                              ? add_gradients_of_parts(batch)
                              : add_gradients(batch.images, batch.labels, {}, /*is_last=*/true);
  {
    const Span span(profiler::span::kOptimizer);
    step_optimizer(learning_rate);
  }
  return loss;
}

at::Tensor Learner::add_gradients_of_parts(const DeviceBatch& batch) {
  const std::vector<at::Tensor> images = parts_of(batch.images);
  const std::vector<at::Tensor> labels = parts_of(batch.labels);
  const auto samples = static_cast<double>(batch.images.size(0));
  at::Tensor sum;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const double share = static_cast<double>(images[i].size(0)) / samples;
    const at::Tensor loss = add_gradients(images[i], labels[i], share, i + 1 == images.size());
    sum = sum.defined() ? sum + loss * share : loss * share;
  }
  return sum;
}

std::vector<at::Tensor> Learner::parts_of(const at::Tensor& batch) const {
  return batch.split((batch.size(0) + rules_.accumulate - 1) / rules_.accumulate);
}

at::Tensor Learner::add_gradients(const at::Tensor& images, const at::Tensor& labels,
                                  std::optional<double> share, bool is_last) {
  at::Tensor loss;
  {
    const AutocastGuard autocast(device_.type(), settings_.autocast, !settings_.is_graph);
    at::Tensor logits;
    {
      const Span span(profiler::span::kForward);
      logits = forward(images);
    }
    const Span span(profiler::span::kLoss);
    loss = compute_loss(loss_, logits, labels);
  }
  const Span span(profiler::span::kBackward);
  if (reducer_ != nullptr && is_last) reducer_->begin_last_backward();
  const at::Tensor counted = share ? loss * *share : loss;
  if (settings_.autocast == at::kHalf) {
    scaler_.scale(counted).backward();
  } else {
    counted.backward();
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

at::Tensor Learner::compute_loss(const LossFunction& loss, const at::Tensor& logits,
                                 const at::Tensor& labels) const {
  if (!settings_.kept.has_loss) return loss(logits, labels);
  const AutocastPause pause(device_.type());
  return loss(in_32_bit(logits), labels);
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
  if (before_update_) before_update_();
  if (rate_without_gradients_) {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& gradient : gradients())
      gradient.zero_();
  }
  if (settings_.is_graph) {
    std::optional<at::Tensor> found_inf;
    if (settings_.autocast == at::kHalf) found_inf = scaler_.unscale_on_device(gradients());
    clip_gradients();
    for (const ParameterGroup& group : groups_)
      group.optimizer->step_on_device(found_inf);
    return;
  }
  if (settings_.autocast == at::kHalf && !scaler_.unscale(gradients())) return;
  clip_gradients();
  for (const ParameterGroup& group : groups_)
    group.optimizer->step(learning_rate);
}

void Learner::clip_gradients() {
  if (!rules_.clip_norm && !rules_.clip_value) return;
  limit_gradients(gradients(), rules_.clip_norm, rules_.clip_value);
}

at::Tensor Learner::logits(const DeviceBatch& batch) {
  const at::NoGradGuard no_grad;
  const AutocastGuard autocast(device_.type(), settings_.autocast);
  const EvaluationMode evaluation_mode(*model_);
  const WeightAverage::Scope averaged(average_.get(), /*copies=*/forward_ != nullptr);
  return forward(batch.images).to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor Learner::outputs(const DeviceBatch& batch) {
  const at::NoGradGuard no_grad;
  const AutocastGuard autocast(device_.type(), settings_.autocast);
  const EvaluationMode evaluation_mode(*model_);
  return part_to_keep(forward(batch.images))
      .to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

Learner::Score Learner::score(const DeviceBatch& batch) {
  const at::NoGradGuard no_grad;
  const AutocastGuard autocast(device_.type(), settings_.autocast);
  const at::Tensor logits = [&] {
    const EvaluationMode evaluation_mode(*model_);
    const WeightAverage::Scope averaged(average_.get(), /*copies=*/forward_ != nullptr);
    return forward(batch.images);
  }();
  if (batch.labels.dim() == kMaskDimensions) {
    const auto [sum, counted] = sum_over_masks(
        [this](const at::Tensor& outputs, const at::Tensor& labels) {
          return compute_loss(test_loss_, outputs, labels);
        },
        logits, batch.labels);
    return {.loss_sum = sum, .counted = counted, .correct = {}, .logits = logits};
  }
  const bool has_classes = !batch.labels.is_floating_point();
  const std::int64_t of_classes = logits.dim() == 3 ? 2 : 1;  // 2: of tokens
  return {.loss_sum = compute_loss(test_loss_, logits, batch.labels).to(at::kDouble) *
                      static_cast<double>(batch.samples),
          .counted = {},
          .correct = has_classes ? logits.argmax(of_classes).eq(batch.labels).sum() : at::Tensor(),
          .logits = logits};
}

std::unique_ptr<Learner::GradientWatch> Learner::watch_gradients(
    std::function<void(std::size_t)> on_gradient) {
  return std::make_unique<GradientWatch>(trained_parameters(), std::move(on_gradient));
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

void Learner::drop_step() {
  drop_gradients();
  if (graph_ != nullptr) graph_->drop();
}

void Learner::drop_gradients() {
  for (at::Tensor& parameter : parameters_)
    parameter.mutable_grad().reset();
}

std::vector<at::Tensor> Learner::gradients() const {
  std::vector<at::Tensor> all;
  all.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) all.push_back(parameter.grad());
  }
  return all;
}

std::vector<at::Tensor> Learner::trained_parameters() const {
  std::vector<at::Tensor> all = parameters_;
  std::erase_if(all, [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
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

bool Learner::has_filters() const {
  return std::ranges::any_of(parameters_,
                             [](const at::Tensor& parameter) { return parameter.dim() == 4; });
}

std::int64_t Learner::parameter_bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& parameter : parameters_) {
    bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
  return bytes;
}

}  // namespace autotuned::trainer
