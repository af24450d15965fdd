// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/known_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/machine/machine.hpp"
#include "base/text.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::plugins {
namespace {

using namespace std::string_view_literals;
using recipes::Knob;
using recipes::KnobType;

// Of Machine::to_json().
constexpr std::array kEnvironment = {
    "cpu_features"sv, "cpu_model"sv, "cpus_allowed"sv,         "gpu_driver"sv,    "gpu_reason"sv,
    "gpus"sv,         "kernel"sv,    "memory_allowed_bytes"sv, "physical_cores"sv};

// What a trainer (trainer/answers.cpp) and a script's agent (python/autotuned/agent/description.py) tell of a job.
constexpr std::array kJob = {"allocator"sv,
                             "boundary"sv,
                             "cache_allowed_bytes"sv,
                             "cache_decoded_bytes"sv,
                             "cache_disk_allowed_bytes"sv,
                             "cache_prefix_bytes"sv,
                             "cache_raw_bytes"sv,
                             "can_decode_crop"sv,
                             "can_finish_on_device"sv,
                             "can_move_crop"sv,
                             "checks"sv,
                             "classes"sv,
                             "configuration"sv,
                             "decode_scale"sv,
                             "device"sv,
                             "device_memory_bytes"sv,
                             "device_uuid"sv,
                             "device_uuids"sv,
                             "dilates"sv,
                             "has_filters"sv,
                             "jpeg_index_bytes"sv,
                             "keep_float32_obstacle"sv,
                             "knobs"sv,
                             "length_told_by"sv,
                             "loaders"sv,
                             "most_samples_left"sv,
                             "most_told_by"sv,
                             "notes"sv,
                             "optimizers"sv,
                             "parameter_bytes"sv,
                             "parameters"sv,
                             "pixel_stages"sv,
                             "roots"sv,
                             "sample_dtype"sv,
                             "sample_shape"sv,
                             "samples_left"sv,
                             "samples_per_step"sv,
                             "step"sv,
                             "steps"sv,
                             "steps_left"sv,
                             "stored_samples"sv,
                             "test_samples"sv,
                             "tokens_per_sample"sv,
                             "train_samples"sv};

// Of the situation that a run tells (tuner/advisors.cpp).
constexpr std::array kRecipe = {
    "batch_size"sv, "checkpoint_every_ns"sv, "data"sv,  "deterministic"sv,      "input"sv,
    "model"sv,      "optimizer"sv,           "ranks"sv, "train_samples_total"sv};

// The metrics and signals of docs/metrics.md, and the rungs of the ladder there.
constexpr std::array kMetrics = {"ceiling.device_batch_ratio"sv,
                                 "ceiling.host_batch_ratio"sv,
                                 "ceiling.made_samples_ratio"sv,
                                 "ceiling.raw_bytes_ratio"sv,
                                 "checkpoint.copy_ns"sv,
                                 "checkpoint.write_ns"sv,
                                 "copies.device_to_host_ratio"sv,
                                 "copies.host_to_device_ratio"sv,
                                 "copies.pageable_ratio"sv,
                                 "copies.per_step_bytes"sv,
                                 "cpu.gemm_conv_share_ratio"sv,
                                 "cpu.kernel_ratio"sv,
                                 "cpu.utilization_ratio"sv,
                                 "device.idle_chunks_share_ratio"sv,
                                 "device.launch_wait_ratio"sv,
                                 "device.longest_gap_ns"sv,
                                 "device.occupancy_ratio"sv,
                                 "device.sm_efficiency_ratio"sv,
                                 "device.tensor_core_share_ratio"sv,
                                 "device.unfilled_ratio"sv,
                                 "device.utilization_ratio"sv,
                                 "distributed.devices_of_data_parallel_count"sv,
                                 "distributed.without_nccl_count"sv,
                                 "gradients.complete"sv,
                                 "gradients.fill_ratio"sv,
                                 "input.cache_bytes"sv,
                                 "input.cache_fill_ns"sv,
                                 "input.cached_ratio"sv,
                                 "input.decode_ratio"sv,
                                 "input.prefix_ratio"sv,
                                 "input.read_ratio"sv,
                                 "input.storage_bytes_per_step"sv,
                                 "kernels.drift_ratio"sv,
                                 "kernels.layout_conversion_share_ratio"sv,
                                 "kernels.mean_ns"sv,
                                 "kernels.per_step_count"sv,
                                 "kernels.shorter_than_launch_share_ratio"sv,
                                 "kernels.without_tensor_cores_share_ratio"sv,
                                 "loader.cost_ratio"sv,
                                 "loader.float_from_uint8_ratio"sv,
                                 "loader.sample_ns"sv,
                                 "loading.before_crop_share_ratio"sv,
                                 "loading.cores_needed"sv,
                                 "loading.cores_needed_over_cores"sv,
                                 "loading.float_from_uint8_ratio"sv,
                                 "loading.hottest_over_mean"sv,
                                 "loading.in_training_process_ratio"sv,
                                 "loading.periodic_wait_ratio"sv,
                                 "loading.read_first_over_last"sv,
                                 "loading.read_share_ratio"sv,
                                 "loading.starved_steps_share_ratio"sv,
                                 "loading.threads_count"sv,
                                 "loading.threads_per_core"sv,
                                 "loading.unnamed_operators_ratio"sv,
                                 "loading.unnamed_ratio"sv,
                                 "loading.wait_period_count"sv,
                                 "machine.cpus_count"sv,
                                 "memory.growth_share_ratio"sv,
                                 "memory.large_blocks_per_step_count"sv,
                                 "memory.page_faults_per_step"sv,
                                 "memory.peak_bytes"sv,
                                 "memory.peak_device_bytes"sv,
                                 "memory.peak_host_bytes"sv,
                                 "memory.peak_ratio"sv,
                                 "memory.pinned_bytes"sv,
                                 "memory.unused_reserve_share_ratio"sv,
                                 "operators.convolution_share_ratio"sv,
                                 "operators.count_per_step"sv,
                                 "operators.fill_ratio"sv,
                                 "operators.gather_ratio"sv,
                                 "operators.gather_share_ratio"sv,
                                 "operators.gemm_conv_ratio"sv,
                                 "operators.gemm_conv_share_ratio"sv,
                                 "operators.mean_ns"sv,
                                 "operators.scalar_read_ratio"sv,
                                 "operators.small_host_share_ratio"sv,
                                 "optimizer.step_ratio"sv,
                                 "parameters.bytes"sv,
                                 "parameters.count"sv,
                                 "parts.communication_ratio"sv,
                                 "parts.copy_ratio"sv,
                                 "parts.cpu_ratio"sv,
                                 "parts.data_loading_ratio"sv,
                                 "parts.fill_ratio"sv,
                                 "parts.kernel_ratio"sv,
                                 "parts.other_ratio"sv,
                                 "profiler.overhead_ratio"sv,
                                 "ranks.behind_ratio"sv,
                                 "ranks.exposed_ratio"sv,
                                 "ranks.imbalance_ratio"sv,
                                 "ranks.slowest"sv,
                                 "samples_per_second"sv,
                                 "step.backward_ratio"sv,
                                 "step.data_wait_ratio"sv,
                                 "step.duration_ns"sv,
                                 "step.first_over_median"sv,
                                 "step.forward_ratio"sv,
                                 "step.host_bound_ratio"sv,
                                 "step.loss_ratio"sv,
                                 "step.loss_reading_ratio"sv,
                                 "step.mean_ns"sv,
                                 "step.optimizer_ratio"sv,
                                 "step.other_ratio"sv,
                                 "step.residual_ratio"sv,
                                 "step.samples"sv,
                                 "step.slowest_over_median"sv,
                                 "step.transfer_ratio"sv,
                                 "step.zero_grad_ratio"sv,
                                 "steps_count"sv,
                                 "train.checkpoint_ratio"sv,
                                 "transfer.bytes_per_step"sv,
                                 "transfer.pageable_ratio"sv,
                                 "waiting.device_allocation_ratio"sv,
                                 "waiting.launch_queue_full_ratio"sv,
                                 "waiting.synchronize_ratio"sv,
                                 "waiting.synchronous_copy_ratio"sv,
                                 "waiting.synchronous_fill_ratio"sv};

constexpr std::string_view kVariables = "env.";

Knob script_knob(const char* name, KnobType type, std::vector<std::string> choices = {}) {
  Knob knob;
  knob.name = name;
  knob.type = type;
  knob.choices = std::move(choices);
  return knob;
}

// The built-in knobs, and those that scripts alone have (python/autotuned/knobs/knobs.py).
const std::vector<Knob>& known_knobs() {
  static const std::vector<Knob> kKnobs = [] {
    std::vector<Knob> knobs = recipes::knobs_of(Machine{});
    knobs.push_back(script_knob("loader.native_threads", KnobType::integer));
    knobs.push_back(script_knob("loader.persistent_workers", KnobType::boolean));
    knobs.push_back(
        script_knob("model.compile", KnobType::choice,
                    {"off", "default", "reduce-overhead", "max-autotune-no-cudagraphs"}));
    knobs.push_back(script_knob("optimizer.foreach", KnobType::boolean));
    return knobs;
  }();
  return kKnobs;
}

// Fewer names are told as a whole.
constexpr std::size_t kMaxTold = 12;

// What follows the name of something that is none of `known`.
std::string spelling_advice(std::string_view name, std::span<const std::string> known,
                            std::string_view prefix) {
  // "cpus" is meant as cpus_allowed, although it is nearer to gpus.
  const auto longer = std::ranges::find_if(known, [name](std::string_view one) {
    return one.starts_with(name) && one.substr(name.size()).starts_with('_');
  });
  if (longer != known.end()) return fmt::format("; did you mean '{}{}'?", prefix, *longer);
  if (const auto nearest = nearest_name(name, known))
    return fmt::format("; did you mean '{}{}'?", prefix, *nearest);
  return known.size() <= kMaxTold ? fmt::format("; expected one of {}", fmt::join(known, ", "))
                                  : "";
}

std::optional<std::string> why_none_of(std::span<const std::string_view> names,
                                       std::string_view what, std::string_view name,
                                       std::string_view prefix) {
  if (std::ranges::find(names, name) != names.end()) return std::nullopt;
  const std::vector<std::string> known(names.begin(), names.end());
  return fmt::format("unknown {} '{}{}'{}", what, prefix, name,
                     spelling_advice(name, known, prefix));
}

std::optional<std::string> why_unknown_name(const Fact::Name& name) {
  if (name.section == "environment")
    return why_none_of(kEnvironment, "fact", name.key, "environment.");
  if (name.section == "job") return why_none_of(kJob, "fact", name.key, "job.");
  if (name.section == "recipe") return why_none_of(kRecipe, "fact", name.key, "recipe.");
  if (name.section == "metrics") return why_none_of(kMetrics, "metric", name.key, "");
  return why_no_knob(name.key);  // of `starting` or `incumbent`
}

}  // namespace

std::optional<std::string> why_unknown(const Fact& fact) {
  for (const Fact::Name& name : fact.names()) {
    if (auto reason = why_unknown_name(name)) return reason;
  }
  return std::nullopt;
}

std::optional<std::string> why_no_knob(std::string_view name) {
  const std::vector<Knob>& knobs = known_knobs();
  if (name.starts_with(kVariables) || recipes::find_knob(knobs, name)) return std::nullopt;
  if (recipes::may_be_of_extension(recipes::knobs_of(Machine{}), name)) return std::nullopt;
  std::vector<std::string> names;
  for (const Knob& knob : knobs)
    names.push_back(knob.name);
  return fmt::format("unknown knob '{}'{}", name, spelling_advice(name, names, ""));
}

std::optional<std::string> why_no_value(std::string_view name, const Values::Literal& value) {
  const auto knob = recipes::find_knob(known_knobs(), name);
  if (!knob) return std::nullopt;
  const std::string_view type = recipes::to_string(knob->type);
  if (!value.may_be(type)) return no_value_text(value.text, type, name);
  const bool is_free = knob->type != KnobType::choice;
  if (is_free || std::ranges::find(knob->choices, value.text) != knob->choices.end())
    return std::nullopt;
  return no_value_text(value.text, "", name) + spelling_advice(value.text, knob->choices, "");
}

}  // namespace autotuned::plugins
