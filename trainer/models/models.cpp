// SPDX-License-Identifier: Apache-2.0
#include "recipes/targets.hpp"
#include "trainer/models/families.hpp"

namespace autotuned::trainer {

std::optional<OutputForm> output_form(const at::Tensor& logits, std::int64_t samples,
                                      input::SampleShape image) {
  const bool gives_maps = logits.dim() == 4;
  if (!logits.is_floating_point() || (!gives_maps && logits.dim() != 2) ||
      logits.size(0) != samples || logits.size(1) < 1)
    return std::nullopt;
  if (gives_maps && (logits.size(2) != image.height || logits.size(3) != image.width))
    return std::nullopt;
  return OutputForm{logits.size(1), gives_maps};
}

Result<std::shared_ptr<Model>> make_model(const recipes::Component& spec,
                                          input::SampleShape sample) {
  if (spec.type == "fashion_cnn") return make_fashion_cnn(spec, sample);
  if (spec.type == "mlp") return make_mlp(spec, sample);
  if (spec.type == "simple_cnn") return make_simple_cnn(spec, sample);
  if (spec.type == "pooling_cnn") return make_pooling_cnn(spec, sample);
  if (spec.type == "resnet18" || spec.type == "resnet34" || spec.type == "resnet50") {
    return make_resnet(spec, sample);
  }
  if (spec.type == "convnext_tiny") return make_convnext(spec, sample);
  if (spec.type == "efficientnet_b0") return make_efficientnet(spec, sample);
  if (spec.type == "mobilenet_v3_large" || spec.type == "mobilenet_v3_small") {
    return make_mobilenet(spec, sample);
  }
  if (spec.type == "unet") return make_unet(spec, sample);
  if (spec.type == "vit") return make_vit(spec, sample);
  if (spec.type == recipes::kTokenModel) return make_gpt(spec, sample);
  if (spec.type == "paced") return make_paced(spec, sample);
  if (spec.type == "torchscript") return make_torchscript(spec, sample);
  return fail(ErrorKind::unsupported, "this trainer has no model '" + spec.type + "'");
}

}  // namespace autotuned::trainer
