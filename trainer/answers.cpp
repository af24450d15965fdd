// SPDX-License-Identifier: Apache-2.0
#include "trainer/answers.hpp"

#include <cstddef>

#include "trainer/evaluation/test_figures.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::size_t kMaxOperators = 200;
// More would be most of what is stored of a run.
constexpr std::size_t kMaxClassNames = 10'000;

}  // namespace

Json to_json(const JobFacts& facts) {
  return {{"parameters", facts.parameters},
          {"parameter_bytes", facts.parameter_bytes},
          {"has_filters", facts.has_filters},
          {"train_samples", facts.train_samples},
          {"test_samples", facts.test_samples},
          {"sample_shape", facts.sample_shape},
          {"sample_dtype", facts.tokens_per_sample > 0 ? "int64" : "uint8"},
          {"tokens_per_sample", facts.tokens_per_sample},
          {"classes", facts.classes},
          {"keep_float32_obstacle", facts.keep_float32_obstacle},
          {"can_move_crop", facts.can_move_crop},
          {"can_decode_crop", facts.can_decode_crop},
          {"pixel_stages", facts.pixel_stages},
          {"decode_scale", facts.decode_scale},
          {"dilates", facts.dilates},
          {"can_finish_on_device", facts.can_finish_on_device},
          {"cache_raw_bytes", facts.cache_raw_bytes},
          {"cache_decoded_bytes", facts.cache_decoded_bytes},
          {"cache_prefix_bytes", facts.cache_prefix_bytes},
          {"cache_allowed_bytes", facts.cache_allowed_bytes},
          {"cache_disk_allowed_bytes", facts.cache_disk_allowed_bytes},
          {"stored_samples", facts.stored_samples},
          {"jpeg_index_bytes", facts.jpeg_index_bytes},
          {"device", facts.device},
          {"device_memory_bytes", facts.device_memory_bytes}};
}

Json to_json(const JobProfile& profile) {
  Json spans = Json::array();
  for (const profiler::SpanTotal& span : profile.spans) {
    spans.push_back({{"name", span.name},
                     {"count", span.count},
                     {"total_ns", span.total_ns},
                     {"self_ns", span.self_ns}});
  }
  Json operators = Json::array();
  for (const profiler::OperatorTotal& one : profile.operators) {
    if (operators.size() == kMaxOperators) break;
    operators.push_back({{"name", one.name},
                         {"calls", one.calls},
                         {"total_ns", one.total_ns},
                         {"self_ns", one.self_ns}});
  }
  return {{"metrics", profile.metrics}, {"spans", spans}, {"operators", operators}};
}

Json to_json(const TrainingSummary& summary, const JobFacts& facts) {
  Json json = {{"steps", summary.steps},
               {"samples", summary.samples},
               {"epochs", summary.epochs},
               {"duration_ns", summary.duration_ns},
               {"evaluation_ns", summary.evaluation_ns},
               {"final_loss", summary.final_loss},
               {"cancelled", summary.was_cancelled},
               {"resumed_from_step", summary.resumed_from_step},
               {"damaged_files", summary.damaged_files},
               {"evaluations_since_best", summary.evaluations_since_best}};
  json.update(test_json(summary.test));
  if (!summary.best_evaluation.is_null()) json["best_evaluation"] = summary.best_evaluation;
  json["sample_shape"] = facts.sample_shape;
  json["stored_as"] = facts.stored_as;
  const bool are_few = facts.class_names.size() <= kMaxClassNames;
  if (!facts.class_names.empty() && are_few) json["class_names"] = facts.class_names;
  return json;
}

}  // namespace autotuned::trainer
