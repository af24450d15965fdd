// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/settings/step_settings.hpp"

#include <optional>
#include <string>
#include <utility>

#include "trainer/ranks/gradient_reducer.hpp"
#include "trainer/step/kept_modules.hpp"

namespace autotuned::trainer {

namespace {

std::optional<at::ScalarType> autocast_type(const std::string& value) {
  if (value == "bf16") return at::kBFloat16;
  if (value == "fp16") return at::kHalf;
  return std::nullopt;
}

ReducerSettings reducer_settings_of(const Configuration& configuration) {
  const std::string& form = configuration.text("ddp.comm_hook");
  return {.bucket_bytes = configuration.integer("ddp.bucket_cap_mb") << 20,
          .is_view = configuration.flag("ddp.gradient_as_bucket_view"),
          .form = form == "bf16"   ? GradientForm::bf16
                  : form == "fp16" ? GradientForm::fp16
                                   : GradientForm::own};
}

}  // namespace

FeedSettings feed_settings_of(const recipes::Recipe& recipe, const Configuration& configuration,
                              const input::Pipeline& pipeline, const input::Kept& kept,
                              std::int64_t memory_allowed_bytes) {
  return {.workers = static_cast<int>(configuration.integer("loader.workers")),
          .prefetch_batches = static_cast<int>(configuration.integer("loader.prefetch_batches")),
          .batch_size = configuration.integer("batch_size"),
          .drop_last = recipe.train.drop_last,
          .is_uint8 = configuration.text("transfer.dtype") == "uint8",
          .pin_memory = configuration.flag("loader.pin_memory"),
          .non_blocking = configuration.flag("transfer.non_blocking"),
          .is_channels_last = configuration.text("layout.memory_format") == "channels_last",
          .memory_allowed_bytes = memory_allowed_bytes,
          .read_ahead_batches = static_cast<int>(configuration.integer("input.read_ahead")),
          .pipeline = &pipeline,
          .kept = kept,
          .affinity = configuration.text("loader.affinity") == "apart" ? input::Affinity::apart
                                                                       : input::Affinity::any};
}

Result<LearnerSettings> learner_settings_of(const Configuration& configuration,
                                            const Model& model) {
  auto kept = kept_modules(model, configuration.text("precision.keep_float32"));
  if (!kept) return tl::unexpected(kept.error());
  return LearnerSettings{
      .autocast = autocast_type(configuration.text("precision.autocast")),
      .kept = std::move(*kept),
      .set_to_none = configuration.flag("optimizer.set_to_none"),
      .is_fused = configuration.flag("optimizer.fused"),
      .is_channels_last = configuration.text("layout.memory_format") == "channels_last",
      .is_graph = configuration.flag("cuda.graph"),
      .is_tf32 = configuration.flag("precision.tf32"),
      .is_indexing = configuration.text("rewrite.gather") == "indexing",
      .reducer = reducer_settings_of(configuration)};
}

}  // namespace autotuned::trainer
