// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/plugin.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "plugins/sdk/workload.hpp"
#include "trainer/common/generator_kept.hpp"
#include "trainer/common/plugin_call.hpp"
#include "trainer/models/shape_text.hpp"

namespace autotuned::trainer {
namespace {

constexpr const char* kRemedy =
    "let forward(images) return logits of shape (samples, classes), or for masks (samples, "
    "classes, "
    "rows, columns)";

class PluginModel final : public Model {
 public:
  PluginModel(std::shared_ptr<sdk::WorkloadModel> model, const OutputForm& form, std::string who)
      : Model(form.classes, form.gives_maps), model_(std::move(model)), who_(std::move(who)) {
    for (const auto& parameter : model_->named_parameters(/*recurse=*/false)) {
      register_parameter(parameter.key(), parameter.value(), parameter.value().requires_grad());
    }
    for (const auto& buffer : model_->named_buffers(/*recurse=*/false)) {
      register_buffer(buffer.key(), buffer.value());
    }
    for (const auto& child : model_->named_children())
      register_module(child.key(), child.value());
    PluginModel::train(true);
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor logits = plugin_call(who_, "forward", [&] { return model_->forward(images); });
    const bool fits =
        logits.defined() && logits.dim() == (gives_maps() ? 4 : 2) &&
        logits.size(0) == images.size(0) && logits.size(1) == classes() &&
        (!gives_maps() || (logits.size(2) == images.size(2) && logits.size(3) == images.size(3)));
    if (!fits) {
      throw PluginError(who_ + ": forward: returns " +
                        (logits.defined() ? shape_text(logits) : "nothing") + " for " +
                        std::to_string(images.size(0)) + " samples; " + kRemedy);
    }
    return logits;
  }

  [[nodiscard]] std::string why_opaque() const override {
    return "the model of " + who_ + " calls its modules itself";
  }

  void train(bool on) override {
    Model::train(on);
    model_->train(on);
  }

 private:
  std::shared_ptr<sdk::WorkloadModel> model_;
  std::string who_;
};

// How many classes it tells apart, and where, found by letting it look at black images.
Result<OutputForm> form_of(sdk::WorkloadModel& model, input::SampleShape sample,
                           const std::string& who) {
  constexpr std::int64_t kSamples = 2;
  const GeneratorKept generator_kept;
  const at::NoGradGuard no_grad;
  const auto logits = plugin_result(ErrorKind::invalid, who, "forward", [&] {
    model.eval();
    return model.forward(at::zeros({kSamples, sample.channels, sample.height, sample.width}));
  });
  if (!logits) {
    return fail(ErrorKind::invalid,
                logits.error().what + ", on two samples of " + std::to_string(sample.channels) +
                    " x " + std::to_string(sample.height) + " x " + std::to_string(sample.width),
                who);
  }
  if (!logits->defined()) {
    return fail(ErrorKind::invalid, "forward: returns nothing", who, kRemedy);
  }
  const auto form = output_form(*logits, kSamples, sample);
  if (!form) {
    return fail(ErrorKind::invalid, "forward: returns " + shape_text(*logits) + " for two samples",
                who, kRemedy);
  }
  return *form;
}

}  // namespace

Result<std::shared_ptr<Model>> wrap_plugin_model(std::shared_ptr<sdk::WorkloadModel> model,
                                                 input::SampleShape sample,
                                                 const std::string& who) {
  if (model == nullptr) return fail(ErrorKind::invalid, "make_model: made nothing", who);
  const std::vector<at::Tensor> parameters = model->parameters();
  const bool trains = std::ranges::any_of(
      parameters, [](const at::Tensor& parameter) { return parameter.requires_grad(); });
  if (!trains) {
    return fail(ErrorKind::invalid, "make_model: the model has no parameters to train", who,
                "register them with register_module or register_parameter");
  }
  const auto form = form_of(*model, sample, who);
  if (!form) return tl::unexpected(form.error());
  return std::make_shared<PluginModel>(std::move(model), *form, who);
}

}  // namespace autotuned::trainer
