// SPDX-License-Identifier: Apache-2.0
// The gradients of a step by the model alone, without the code that others have put around it.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <cassert>
#include <list>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "trainer/models/model.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

// While one lives, a parameter has neither a gradient nor hooks. The tensor of its gradient stays as it is.
class BareParameter {
 public:
  explicit BareParameter(const at::Tensor& parameter) : parameter_(parameter) { exchange(); }
  ~BareParameter() { exchange(); }
  BareParameter(const BareParameter&) = delete;
  BareParameter& operator=(const BareParameter&) = delete;

 private:
  void exchange() {
    std::swap(parameter_.mutable_grad(), gradient_);
    auto* const meta = torch::autograd::impl::get_autograd_meta(parameter_);
    if (meta == nullptr) return;
    std::swap(meta->hooks_, hooks_);
    std::swap(meta->post_acc_grad_hooks_, hooks_after_);
    std::swap(meta->grad_accumulator_, accumulator_);  // it may have hooks, too
  }

  at::Tensor parameter_;
  at::Tensor gradient_;
  std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>> hooks_;
  std::unique_ptr<torch::autograd::PostAccumulateGradHook> hooks_after_;
  std::weak_ptr<torch::autograd::Node> accumulator_;
};

// Another forward takes the place of the learner's for as long as one lives.
class OtherForward {
 public:
  OtherForward(Learner::Forward& place, Learner::Forward other)
      : place_(place), before_(std::exchange(place, std::move(other))) {}
  ~OtherForward() { place_ = std::move(before_); }
  OtherForward(const OtherForward&) = delete;
  OtherForward& operator=(const OtherForward&) = delete;

 private:
  Learner::Forward& place_;
  Learner::Forward before_;
};

}  // namespace

std::vector<at::Tensor> Learner::own_gradients(const DeviceBatch& batch) {
  assert(ranks_ == nullptr && !settings_.is_graph);
  const at::AutoGradMode with_gradients(true);
  std::list<BareParameter> bare;
  std::set<const void*> seen;  // a model of a user may have a parameter under two names
  for (const at::Tensor& parameter : parameters_)
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) bare.emplace_back(parameter);
  const OtherForward own(forward_,
                         [this](const at::Tensor& images) { return model_->forward(images); });
  if (rules_.accumulate > 1) {
    (void)add_gradients_of_parts(batch);
  } else {
    (void)add_gradients(batch.images, batch.labels, {}, /*is_last=*/true);
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters_)
    gradients.push_back(parameter.grad());
  return gradients;
}

}  // namespace autotuned::trainer
