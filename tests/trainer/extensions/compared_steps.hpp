// SPDX-License-Identifier: Apache-2.0
// Steps of small models that are compared with what the model computes by itself.
#pragma once

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <memory>
#include <string>

#include "tests/trainer/small_job.hpp"
#include "trainer/extensions/own_pass.hpp"
#include "trainer/models/model.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {

inline constexpr const char* kOtherGradients =
    "the gradients are not those of the model's own forward";
inline constexpr const char* kOtherAnswers =
    "the answers in an evaluation are not those of the model's own forward";

// With running averages in buffers.
inline recipes::Recipe resnet_recipe() {
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"resnet18", {{"classes", 4}}};
  return recipe;
}

inline std::unique_ptr<Learner> learner_of(const recipes::Recipe& recipe) {
  const bool is_in_colour = recipe.model.type == "resnet18";
  return value_of(Learner::create(
      recipe, is_in_colour ? input::SampleShape{3, 32, 32} : input::SampleShape{1, 8, 8},
      at::kCPU));
}

inline DeviceBatch batch_for(const recipes::Recipe& recipe) {
  const bool is_in_colour = recipe.model.type == "resnet18";
  DeviceBatch batch;
  batch.images = is_in_colour ? at::randn({8, 3, 32, 32}) : at::randn({8, 1, 8, 8});
  batch.labels = at::randint(4, {8}, at::kLong);
  batch.samples = 8;
  return batch;
}

// Makes steps whose forward is another one, and says what differs from the model's.
class Compared {
 public:
  explicit Compared(Learner& learner) : learner_(learner) {}

  std::string step(const DeviceBatch& batch, const Learner::Forward& forward = nullptr,
                   Closeness asked = Closeness::equal) {
    std::string did = "not compared";
    learner_.set_forward(forward ? forward : own_forward());
    learner_.set_before_update([&] { did = own_.difference_of_step(learner_, asked); });
    own_.begin_step(learner_, batch);
    (void)learner_.step(batch, 0.05);
    learner_.set_before_update(nullptr);
    learner_.set_forward(nullptr);
    own_.drop();
    return did;
  }

  OwnPass& own() { return own_; }

 private:
  Learner::Forward own_forward() {
    return [this](const at::Tensor& images) { return learner_.model().forward(images); };
  }

  Learner& learner_;
  OwnPass own_;
};

}  // namespace autotuned::trainer
