// SPDX-License-Identifier: Apache-2.0
// A workload plugin: your model, data set and loss in C++, named by a recipe as `model: {plugin: NAME}`,
// `data: {plugin: NAME}` and `loss: {plugin: NAME}`. Needs LibTorch, and the compiler that the
// program was built with (autotuned_trainer.h). docs/plugin-guide.md shows a whole one.
//
// Functions may throw: the run then ends with what() and names the plugin and the line of the recipe.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/version.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "plugins/sdk/autotuned_trainer.h"
#include "plugins/sdk/parameters.hpp"

namespace autotuned::sdk {

struct SampleShape {
  int channels = 1;
  int height = 1;
  int width = 1;

  [[nodiscard]] std::int64_t elements() const { return std::int64_t{channels} * height * width; }
};

// The base class of your model. Register parameters, buffers and modules in the constructor: they are trained, and
// saved in checkpoints and in model.pt under their names. Buffers must be changed in place.
class WorkloadModel : public torch::nn::Module {
 public:
  // Logits (samples, classes) of images (samples, channels, height, width) in float32. One thread.
  virtual at::Tensor forward(const at::Tensor& images) = 0;
};

// A fixed list of samples and their labels. Functions are const and are called from several threads at
// once, those of the loader.
class WorkloadData {
 public:
  WorkloadData() = default;
  WorkloadData(const WorkloadData&) = delete;
  WorkloadData& operator=(const WorkloadData&) = delete;
  virtual ~WorkloadData() = default;

  [[nodiscard]] virtual std::int64_t size() const = 0;  // 1 .. 2^32-1
  [[nodiscard]] virtual SampleShape shape() const = 0;
  // A sample is bytes (0 .. 255), or floats; in the order channel, row, column.
  [[nodiscard]] virtual bool is_float() const { return false; }
  [[nodiscard]] virtual int classes() const = 0;
  [[nodiscard]] virtual std::int64_t label(std::int64_t index) const = 0;  // 0 .. classes()-1
  // Writes one sample: `out` has room for exactly its bytes, aligned for floats. The same index always gives
  // the same sample, for any caller.
  virtual void read(std::int64_t index, std::span<std::uint8_t> out) const = 0;
};

// The parts that this workload brings: at least one of the three is not null.
struct Workload {
  // The initial values may draw from LibTorch's CPU generator, which has the recipe's seed.
  std::shared_ptr<WorkloadModel> (*make_model)(const Parameters&, SampleShape) = nullptr;
  std::unique_ptr<WorkloadData> (*open_data)(const Parameters&) = nullptr;
  // Returns the loss, a scalar: the mean over the samples. It may be used with other models, too; docs/plugin-guide.md
  // says what logits and labels are then.
  at::Tensor (*loss)(const at::Tensor& logits, const at::Tensor& labels) = nullptr;
};

namespace detail {

// The functions that the trainer calls across the library boundary. Parameters are passed as JSON text, so that each
// side may use its own JSON library.
struct WorkloadSurface {
  std::shared_ptr<WorkloadModel> (*make_model)(const std::string& parameters, SampleShape);
  std::unique_ptr<WorkloadData> (*open_data)(const std::string& parameters);
  at::Tensor (*loss)(const at::Tensor& logits, const at::Tensor& labels);
};

template <const Workload& kWorkload>
std::shared_ptr<WorkloadModel> make_model(const std::string& json, SampleShape shape) {
  const Parameters parameters(json);
  auto model = kWorkload.make_model(parameters, shape);
  parameters.refuse_unknown();
  return model;
}

template <const Workload& kWorkload>
std::unique_ptr<WorkloadData> open_data(const std::string& json) {
  const Parameters parameters(json);
  auto data = kWorkload.open_data(parameters);
  parameters.refuse_unknown();
  return data;
}

template <const Workload& kWorkload>
constexpr WorkloadSurface surface_of() {
  return {kWorkload.make_model != nullptr ? make_model<kWorkload> : nullptr,
          kWorkload.open_data != nullptr ? open_data<kWorkload> : nullptr, kWorkload.loss};
}

}  // namespace detail
}  // namespace autotuned::sdk

// Makes this library a workload plugin; once, at global scope. NAME is that of the file,
// libNAME_trainer.so; VERSION and SUMMARY are string literals. Then the fields of a Workload:
//
//   AUTOTUNED_WORKLOAD("mine", "1.0", "A small network.", .make_model = make_model);
#define AUTOTUNED_WORKLOAD(NAME, VERSION, SUMMARY, ...)                                    \
  namespace {                                                                              \
  constexpr ::autotuned::sdk::Workload kAutotunedWorkload = {__VA_ARGS__};                 \
  constexpr ::autotuned::sdk::detail::WorkloadSurface kAutotunedSurface =                  \
      ::autotuned::sdk::detail::surface_of<kAutotunedWorkload>();                          \
  }                                                                                        \
  AUTOTUNED_TRAINER(                                                                       \
      AUTOTUNED_TRAINER_METADATA("workload", NAME, VERSION, SUMMARY, TORCH_VERSION, "[]"), \
      &kAutotunedSurface)
