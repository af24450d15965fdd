// SPDX-License-Identifier: Apache-2.0
// The optimizers against LibTorch's and PyTorch's.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <bit>
#include <cstdlib>

#include "tests/trainer/models/formula.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/step/optimizer.hpp"

namespace autotuned::trainer {
namespace {

std::vector<at::Tensor> some_parameters() {
  at::manual_seed(3);
  std::vector<at::Tensor> parameters;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{5, 3}, {7}, {4, 2, 3, 3}}) {
    parameters.push_back(at::randn(shape).set_requires_grad(true));
  }
  return parameters;
}

void set_gradients(const std::vector<at::Tensor>& parameters, int step) {
  at::manual_seed(static_cast<std::uint64_t>(100 + step));
  for (const at::Tensor& parameter : parameters) {
    parameter.mutable_grad() = at::randn(parameter.sizes());
  }
}

std::unique_ptr<Optimizer> optimizer(const recipes::Component& spec,
                                     const std::vector<at::Tensor>& parameters) {
  return value_of(make_optimizer(spec, parameters));
}

TEST(Optimizer, SgdComputesPyTorchsBits) {
  for (const bool is_nesterov : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      for (const double decay : {0.0, 0.01}) {
        if (is_nesterov && momentum == 0.0) continue;
        const std::vector<at::Tensor> ours = some_parameters();
        const std::vector<at::Tensor> theirs = some_parameters();
        const auto sgd = optimizer({"sgd",
                                    {{"lr", 0.1},
                                     {"momentum", momentum},
                                     {"weight_decay", decay},
                                     {"nesterov", is_nesterov}}},
                                   ours);
        torch::optim::SGD reference(
            theirs, torch::optim::SGDOptions(0.1).momentum(momentum).weight_decay(decay).nesterov(
                        is_nesterov));
        for (int step = 0; step < 5; ++step) {
          set_gradients(ours, step);
          set_gradients(theirs, step);
          sgd->step(0.1);
          reference.step();
        }
        for (std::size_t i = 0; i < ours.size(); ++i)
          EXPECT_TRUE(at::equal(ours[i], theirs[i]));
      }
    }
  }
}

// Five steps of ours against those of `Reference`, a class of LibTorch with the same options.
template <class Reference, class Options>
void expect_same_updates(const char* name, double decay) {
  const std::vector<at::Tensor> ours = some_parameters();
  const std::vector<at::Tensor> theirs = some_parameters();
  const auto own = optimizer(
      {name, {{"lr", 0.1}, {"betas", {0.9, 0.99}}, {"eps", 1e-8}, {"weight_decay", decay}}}, ours);
  Reference reference(theirs, Options(0.1).betas({0.9, 0.99}).eps(1e-8).weight_decay(decay));
  for (int step = 0; step < 5; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    own->step(0.1);
    reference.step();
  }
  // LibTorch's C++ class multiplies and adds where PyTorch interpolates: another last bit.
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-5, 1e-7));
}

TEST(Optimizer, AdamComputesWhatPyTorchDoes) {
  for (const double decay : {0.0, 0.01})
    expect_same_updates<torch::optim::Adam, torch::optim::AdamOptions>("adam", decay);
}

TEST(Optimizer, AdamWComputesWhatPyTorchDoes) {
  for (const double decay : {0.0, 0.1})
    expect_same_updates<torch::optim::AdamW, torch::optim::AdamWOptions>("adamw", decay);
}

Json adagrad_parameters(double rate_decay, double decay) {
  return {{"lr", 0.1},
          {"lr_decay", rate_decay},
          {"eps", 1e-10},
          {"initial_accumulator_value", 0.25},
          {"weight_decay", decay}};
}

TEST(Optimizer, AdagradComputesWhatPyTorchDoes) {
  for (const double rate_decay : {0.0, 0.1}) {
    for (const double decay : {0.0, 0.1}) {
      const std::vector<at::Tensor> ours = some_parameters();
      const std::vector<at::Tensor> theirs = some_parameters();
      const auto adagrad = optimizer({"adagrad", adagrad_parameters(rate_decay, decay)}, ours);
      torch::optim::Adagrad reference(theirs, torch::optim::AdagradOptions(0.1)
                                                  .lr_decay(rate_decay)
                                                  .weight_decay(decay)
                                                  .initial_accumulator_value(0.25));
      for (int step = 0; step < 5; ++step) {
        set_gradients(ours, step);
        set_gradients(theirs, step);
        adagrad->step(0.1);
        reference.step();
      }
      for (std::size_t i = 0; i < ours.size(); ++i) {
        EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-5, 1e-7));
      }
    }
  }
}

// Every optimizer of PyTorch's Python side, with a rate that changes from step to step. The reference is of one processor:
// square roots and divisions of vectors round otherwise on another, in both of them alike.
TEST(Optimizer, ComputesWhatThePythonOptimizersDo) {
  constexpr std::int64_t kLastPlaces = 128;  // 1.5e-5 of the value
  const std::vector<Json> cases = reference("optimizers.json");
  ASSERT_FALSE(cases.empty());
  for (const Json& one : cases) {
    SCOPED_TRACE(one["optimizer"].dump());
    std::vector<at::Tensor> parameters = {at::empty({7}), at::empty({40})};
    for (std::uint32_t i = 0; i < 2; ++i)
      fill(parameters[i], i);
    const auto tested = optimizer({one["optimizer"]["type"], one["optimizer"]}, parameters);
    for (std::uint32_t step = 0; step < 5; ++step) {
      for (std::uint32_t i = 0; i < 2; ++i) {
        at::Tensor gradient = at::empty_like(parameters[i]);
        fill(gradient, 100 + 10 * step + i);
        parameters[i].mutable_grad() = gradient;
      }
      tested->step(0.1 / (1 + step));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const auto expected = one["bits"][i].get<std::vector<std::int32_t>>();
      ASSERT_EQ(parameters[i].numel(), std::ssize(expected));
      for (std::size_t j = 0; j < expected.size(); ++j) {
        const auto bits = std::bit_cast<std::int32_t>(parameters[i].const_data_ptr<float>()[j]);
        EXPECT_LE(std::abs(std::int64_t{bits} - expected[j]), kLastPlaces) << "element " << j;
      }
    }
  }
}

std::vector<recipes::Component> every_optimizer() {
  std::vector<recipes::Component> specs;
  for (const double decay : {0.0, 0.1}) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool is_nesterov : {false, true}) {
        if (is_nesterov && momentum == 0.0) continue;
        specs.push_back({"sgd",
                         {{"lr", 0.1},
                          {"momentum", momentum},
                          {"weight_decay", decay},
                          {"nesterov", is_nesterov}}});
      }
    }
    for (const char* type : {"adam", "adamw"}) {
      specs.push_back(
          {type, {{"lr", 0.1}, {"betas", {0.9, 0.99}}, {"eps", 1e-8}, {"weight_decay", decay}}});
    }
    for (const double rate_decay : {0.0, 0.1})
      specs.push_back({"adagrad", adagrad_parameters(rate_decay, decay)});
    specs.push_back({"nadam",
                     {{"lr", 0.1},
                      {"betas", {0.9, 0.99}},
                      {"eps", 1e-8},
                      {"momentum_decay", 0.004},
                      {"weight_decay", decay}}});
    for (const bool is_centered : {false, true}) {
      specs.push_back({"rmsprop",
                       {{"lr", 0.1},
                        {"alpha", 0.9},
                        {"eps", 1e-8},
                        {"momentum", is_centered ? 0.5 : 0.0},
                        {"centered", is_centered},
                        {"weight_decay", decay}}});
    }
    specs.push_back({"lion", {{"lr", 0.1}, {"betas", {0.9, 0.99}}, {"weight_decay", decay}}});
  }
  return specs;
}

TEST(Optimizer, LeavesAParameterWithoutGradientAlone) {
  for (const recipes::Component& spec : every_optimizer()) {
    for (const bool is_fused : {false, true}) {
      SCOPED_TRACE(spec.type + spec.parameters.dump() + (is_fused ? " fused" : ""));
      const std::vector<at::Tensor> parameters = some_parameters();
      const auto one = optimizer(spec, parameters);
      one->set_fused(is_fused);
      set_gradients(parameters, 0);
      one->step(0.1);
      set_gradients(parameters, 1);
      parameters[1].mutable_grad().reset();
      const at::Tensor before = parameters[1].detach().clone();
      const at::Tensor other_before = parameters[0].detach().clone();
      one->step(0.1);
      EXPECT_TRUE(at::equal(parameters[1], before));
      EXPECT_FALSE(at::equal(parameters[0], other_before));
    }
  }
}

void expect_close(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::allclose(a[i], b[i], 1e-5, 1e-6)) << i;
}

// Fused in every second step, one parameter without a gradient at first: the state is the same.
TEST(Optimizer, FusedComputesTheSameUpToRounding) {
  for (const recipes::Component& spec : every_optimizer()) {
    SCOPED_TRACE(spec.type + spec.parameters.dump());
    const std::vector<at::Tensor> plain = some_parameters();
    const std::vector<at::Tensor> fused = some_parameters();
    const std::vector<at::Tensor> mixed = some_parameters();
    const auto of_plain = optimizer(spec, plain);
    const auto of_fused = optimizer(spec, fused);
    const auto of_mixed = optimizer(spec, mixed);
    of_fused->set_fused(true);
    for (int step = 0; step < 6; ++step) {
      of_mixed->set_fused(step % 2 == 1);
      for (const auto* parameters : {&plain, &fused, &mixed}) {
        set_gradients(*parameters, step);
        if (step == 0) (*parameters)[1].mutable_grad().reset();
      }
      for (const auto& one : {&of_plain, &of_fused, &of_mixed})
        (*one)->step(0.1 / (1 + step));
    }
    expect_close(fused, plain);
    expect_close(mixed, plain);
    for (const Optimizer::StateList& list : of_fused->state()) {
      for (const Optimizer::StateList& other : of_plain->state()) {
        if (std::string(list.name) != other.name) continue;
        for (std::size_t i = 0; i < list.tensors->size(); ++i) {
          ASSERT_EQ((*list.tensors)[i].defined(), (*other.tensors)[i].defined()) << list.name;
          if (!(*list.tensors)[i].defined()) continue;
          EXPECT_TRUE(at::allclose((*list.tensors)[i], (*other.tensors)[i], 1e-5, 1e-6))
              << list.name;
        }
      }
    }
  }
}

// What a checkpoint holds is all of the state: steps from there are those without an interruption.
TEST(Optimizer, GoesOnFromItsState) {
  for (const recipes::Component& spec : every_optimizer()) {
    SCOPED_TRACE(spec.type + spec.parameters.dump());
    const std::vector<at::Tensor> parameters = some_parameters();
    const auto first = optimizer(spec, parameters);
    const auto step = [&](Optimizer& one, int i) {
      set_gradients(parameters, i);
      one.step(0.1);
    };
    for (int i = 0; i < 4; ++i)
      step(*first, i);
    std::vector<at::Tensor> middle;
    for (const at::Tensor& parameter : parameters)
      middle.push_back(parameter.detach().clone());
    const auto second = optimizer(spec, parameters);
    const auto saved = first->state();
    const auto other = second->state();
    ASSERT_EQ(saved.size(), other.size());
    for (std::size_t i = 0; i < saved.size(); ++i) {
      for (std::size_t j = 0; j < parameters.size(); ++j) {
        const at::Tensor& one = (*saved[i].tensors)[j];
        if (one.defined()) (*other[i].tensors)[j] = one.clone();
      }
    }
    step(*first, 4);
    std::vector<at::Tensor> expected;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      expected.push_back(parameters[i].detach().clone());
      parameters[i].set_data(middle[i]);
    }
    step(*second, 4);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(at::equal(parameters[i], expected[i])) << i;
  }
}

// LibTorch's fused kernels go by memory alone: with a gradient in another order they update other
// elements and say nothing.
TEST(Optimizer, FusedMindsTheLayoutOfGradients) {
  for (const recipes::Component& spec : every_optimizer()) {
    SCOPED_TRACE(spec.type + spec.parameters.dump());
    const std::vector<at::Tensor> plain = some_parameters();
    std::vector<at::Tensor> fused = some_parameters();
    fused[2].set_data(fused[2].detach().contiguous(at::MemoryFormat::ChannelsLast));
    fused[0].set_data(fused[0].detach().t().contiguous().t());
    const auto of_plain = optimizer(spec, plain);
    const auto of_fused = optimizer(spec, fused);
    of_fused->set_fused(true);
    for (int step = 0; step < 3; ++step) {
      set_gradients(plain, step);
      set_gradients(fused, step);
      ASSERT_NE(fused[2].grad().strides(), fused[2].strides());
      of_plain->step(0.1);
      of_fused->step(0.1);
    }
    expect_close(fused, plain);
  }
}

}  // namespace
}  // namespace autotuned::trainer
