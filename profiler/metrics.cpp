// SPDX-License-Identifier: Apache-2.0
#include "profiler/metrics.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>

namespace autotuned::profiler {
namespace {

using enum MetricKind;

// Sorted by name. docs/metrics.md repeats this table; a test compares the two.
constexpr std::array kDefinitions = {
    MetricDefinition{"checkpoint.copy_ns", "ns", duration,
                     "duration of the copy of the state for a checkpoint; 0 if it was not timed"},
    MetricDefinition{
        "checkpoint.write_ns", "ns", duration,
        "duration of writing a checkpoint to storage, with the sync; 0 if it was not timed"},
    MetricDefinition{"cpu.kernel_ratio", "1", ratio,
                     "share of the trainer's CPU time in the operating system's kernel"},
    MetricDefinition{"cpu.utilization_ratio", "1", ratio,
                     "CPU time of the trainer over the product of wall time and allowed CPUs"},
    MetricDefinition{"gradients.complete", "1", ratio,
                     "1 if every parameter got a gradient in every profiled step, otherwise 0"},
    MetricDefinition{"input.cache_bytes", "bytes", size, "memory or disk space of input.cache"},
    MetricDefinition{
        "input.cache_fill_ns", "ns", duration,
        "time for which input.cache was filled before the first block; 0 without a cache"},
    MetricDefinition{"input.cached_ratio", "1", ratio,
                     "share of the stored samples that are in input.cache"},
    MetricDefinition{"input.decode_ratio", "1", ratio,
                     "share of loader.sample_ns spent in reading and decoding"},
    MetricDefinition{"input.prefix_ratio", "1", ratio,
                     "share of loader.sample_ns spent in reading, decoding and the transforms "
                     "before the first random one"},
    MetricDefinition{"input.read_ratio", "1", ratio,
                     "share of loader.sample_ns spent in reading; 0 for data in memory"},
    MetricDefinition{"input.storage_bytes_per_step", "bytes", size,
                     "bytes read from storage in one step; 0 if all files are in memory"},
    MetricDefinition{"loader.cost_ratio", "1", ratio,
                     "share of the step that loading costs: the larger of the wait for data and "
                     "the time that a step saves with ready batches (ladder)"},
    MetricDefinition{
        "loader.float_from_uint8_ratio", "1", ratio,
        "share of the input bytes that are transferred as float32 although the data has 8 bits"},
    MetricDefinition{"loader.sample_ns", "ns", duration, "thread time for preparing one sample"},
    MetricDefinition{"memory.page_faults_per_step", "1", count,
                     "page faults of the trainer in one step that read no disk"},
    MetricDefinition{"memory.peak_device_bytes", "bytes", size,
                     "largest device memory of tensors; 0 on the CPU"},
    MetricDefinition{"memory.peak_host_bytes", "bytes", size,
                     "largest resident host memory of the trainer"},
    MetricDefinition{"memory.pinned_bytes", "bytes", size,
                     "page-locked host memory of batches; 0 without loader.pin_memory"},
    MetricDefinition{"operators.count_per_step", "1", count, "operator calls in one step"},
    MetricDefinition{"operators.fill_ratio", "1", ratio,
                     "share of the step spent in filling gradients with zeros"},
    MetricDefinition{
        "operators.gather_ratio", "1", ratio,
        "share of the step in gather and its backward, or in the row selection that replaces it"},
    MetricDefinition{"operators.gemm_conv_ratio", "1", ratio,
                     "share of the step in matrix products and convolutions, forward and backward"},
    MetricDefinition{"operators.mean_ns", "ns", duration, "mean self time of an operator call"},
    MetricDefinition{"parameters.bytes", "bytes", size, "bytes of all parameters"},
    MetricDefinition{"parameters.count", "1", count, "number of elements of all parameters"},
    MetricDefinition{
        "ranks.behind_ratio", "1", ratio,
        "share of the step by which the slowest rank is behind the fastest; 0 with one "
        "rank"},
    MetricDefinition{"ranks.exposed_ratio", "1", ratio,
                     "share of the step in which a finished backward pass waits for gradients of "
                     "other ranks; 0 with one rank"},
    MetricDefinition{"ranks.slowest", "1", count,
                     "number of the slowest rank, counted from 0; 0 with one rank"},
    MetricDefinition{"samples_per_second", "1/s", rate, "samples trained per second of step time"},
    MetricDefinition{"step.backward_ratio", "1", ratio, "share of the step in the backward pass"},
    MetricDefinition{
        "step.data_wait_ratio", "1", ratio,
        "share of the step spent waiting for the batch, or preparing it if there are no workers"},
    MetricDefinition{"step.duration_ns", "ns", duration, "mean duration of a step"},
    MetricDefinition{"step.forward_ratio", "1", ratio, "share of the step in the forward pass"},
    MetricDefinition{"step.loss_ratio", "1", ratio, "share of the step in the loss"},
    MetricDefinition{"step.loss_reading_ratio", "1", ratio,
                     "share of the step in reading the loss, with the wait for the device"},
    MetricDefinition{"step.optimizer_ratio", "1", ratio, "share of the step in the optimizer"},
    MetricDefinition{"step.other_ratio", "1", ratio,
                     "share of the step in none of the other parts"},
    MetricDefinition{"step.samples", "1", count, "mean number of samples in a step"},
    MetricDefinition{"step.transfer_ratio", "1", ratio,
                     "share of the step spent in the transfer of the batch to the device"},
    MetricDefinition{"step.zero_grad_ratio", "1", ratio,
                     "share of the step spent in resetting gradients"},
    MetricDefinition{"train.checkpoint_ratio", "1", ratio,
                     "share of the training's time in checkpoints if all are synchronous"},
    MetricDefinition{"transfer.bytes_per_step", "bytes", size,
                     "bytes of input and target that a step transfers to the device"},
    MetricDefinition{"transfer.pageable_ratio", "1", ratio,
                     "share of transfer.bytes_per_step copied from pageable memory; 0 on the CPU"},
};

double over(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

bool is_fill(const OperatorTotal& one) {
  return one.span == span::kZeroGrad && (one.name == "aten::zero_" || one.name == "aten::fill_" ||
                                         one.name == "aten::_foreach_zero_");
}

// The functions below add the metrics of one subject. `step_ns`: the time of all profiled steps.

void add_step_metrics(const ProfileFacts& facts, std::int64_t step_ns, Metrics& metrics) {
  std::int64_t named_ns = 0;
  const auto phase = [&](const char* metric, const char* name) {
    const SpanTotal* total = find_total(facts.spans, name);
    const std::int64_t ns = total != nullptr ? total->total_ns : 0;
    named_ns += ns;
    metrics[metric] = over(ns, step_ns);
  };
  phase("step.data_wait_ratio", span::kDataWait);
  phase("step.transfer_ratio", span::kTransfer);
  phase("step.zero_grad_ratio", span::kZeroGrad);
  phase("step.forward_ratio", span::kForward);
  phase("step.loss_ratio", span::kLoss);
  phase("step.backward_ratio", span::kBackward);
  phase("step.optimizer_ratio", span::kOptimizer);
  phase("step.loss_reading_ratio", span::kLossReading);
  metrics["step.other_ratio"] = over(step_ns - named_ns, step_ns);
  metrics["step.duration_ns"] = over(step_ns, facts.steps);
  metrics["step.samples"] = over(facts.samples, facts.steps);
  metrics["samples_per_second"] = 1e9 * over(facts.samples, step_ns);
  // A rank knows only its own time. The first of several ranks fills these two in (trainer/server_ranks.cpp).
  metrics["ranks.behind_ratio"] = 0.0;
  metrics["ranks.slowest"] = 0.0;
  metrics["ranks.exposed_ratio"] = std::min(1.0, over(facts.rank_wait_ns, step_ns));
}

// REQUIRES: add_step_metrics() was called.
void add_loading_metrics(const ProfileFacts& facts, Metrics& metrics) {
  metrics["loader.cost_ratio"] = metrics["step.data_wait_ratio"];
  metrics["loader.sample_ns"] = over(facts.loader_thread_ns, facts.loader_samples);
  const double sample_ns = metrics["loader.sample_ns"];
  const auto share = [&](std::int64_t ns) {
    return sample_ns > 0.0 ? std::min(1.0, over(ns, facts.timed_samples) / sample_ns) : 0.0;
  };
  metrics["input.read_ratio"] = share(facts.reading_ns);
  metrics["input.decode_ratio"] = share(facts.decoding_ns);
  metrics["input.prefix_ratio"] = share(facts.prefix_ns);
  metrics["input.cached_ratio"] = over(facts.cached_samples, facts.stored_samples);
  metrics["input.cache_bytes"] = static_cast<double>(facts.cache_bytes);
  metrics["input.cache_fill_ns"] = static_cast<double>(facts.cache_fill_ns);
  metrics["input.storage_bytes_per_step"] = over(facts.storage_bytes, facts.steps);
  metrics["loader.float_from_uint8_ratio"] = facts.is_float_from_uint8 ? 1.0 : 0.0;
  metrics["transfer.bytes_per_step"] = over(facts.transfer_bytes, facts.steps);
  metrics["transfer.pageable_ratio"] = over(facts.pageable_transfer_bytes, facts.transfer_bytes);
}

void add_operator_metrics(const ProfileFacts& facts, std::int64_t step_ns, Metrics& metrics) {
  std::int64_t calls = 0;
  std::int64_t self_ns = 0;
  std::int64_t gemm_conv_ns = 0;
  std::int64_t fill_ns = 0;
  std::int64_t gather_ns = 0;
  for (const OperatorTotal& one : facts.operators) {
    if (is_gather(one.name)) gather_ns += one.total_ns;
    if (!one.name.starts_with("aten::")) continue;  // autograd's nodes contain operators
    calls += one.calls;
    self_ns += one.self_ns;
    if (is_gemm_or_convolution(one.name)) gemm_conv_ns += one.self_ns;
    if (is_fill(one)) fill_ns += one.self_ns;
  }
  metrics["operators.count_per_step"] = over(calls, facts.steps);
  metrics["operators.mean_ns"] = over(self_ns, calls);
  metrics["operators.gemm_conv_ratio"] = over(gemm_conv_ns, step_ns);
  metrics["operators.fill_ratio"] = over(fill_ns, step_ns);
  metrics["operators.gather_ratio"] = over(gather_ns, step_ns);
}

void add_checkpoint_metrics(const ProfileFacts& facts, Metrics& metrics) {
  const std::int64_t checkpoint_ns = facts.checkpoint_copy_ns + facts.checkpoint_write_ns;
  metrics["checkpoint.copy_ns"] = static_cast<double>(facts.checkpoint_copy_ns);
  metrics["checkpoint.write_ns"] = static_cast<double>(facts.checkpoint_write_ns);
  metrics["train.checkpoint_ratio"] =
      over(checkpoint_ns, facts.checkpoint_every_ns + checkpoint_ns);
}

// Memory, CPUs and the size of the model.
void add_resource_metrics(const ProfileFacts& facts, Metrics& metrics) {
  metrics["memory.peak_host_bytes"] = static_cast<double>(facts.peak_host_bytes);
  metrics["memory.peak_device_bytes"] = static_cast<double>(facts.peak_device_bytes);
  metrics["memory.pinned_bytes"] = static_cast<double>(facts.pinned_bytes);
  metrics["memory.page_faults_per_step"] = over(facts.page_faults, facts.steps);
  metrics["cpu.kernel_ratio"] = over(facts.kernel_cpu_ns, facts.cpu_ns);
  metrics["cpu.utilization_ratio"] =
      over(facts.cpu_ns, facts.wall_ns * std::max(1, facts.cpus_allowed));
  metrics["parameters.count"] = static_cast<double>(facts.parameters);
  metrics["parameters.bytes"] = static_cast<double>(facts.parameter_bytes);
  metrics["gradients.complete"] = facts.has_every_gradient ? 1.0 : 0.0;
}

}  // namespace

std::span<const MetricDefinition> metric_definitions() {
  return kDefinitions;
}

const char* to_string(MetricKind kind) {
  switch (kind) {
    case duration:
      return "duration";
    case count:
      return "count";
    case rate:
      return "rate";
    case ratio:
      return "ratio";
    case size:
      return "size";
  }
  return "";
}

Metrics metrics_of(const ProfileFacts& facts) {
  const SpanTotal* step = find_total(facts.spans, span::kStep);
  assert(facts.steps > 0 && step != nullptr);

  Metrics metrics;
  add_step_metrics(facts, step->total_ns, metrics);
  add_loading_metrics(facts, metrics);
  add_operator_metrics(facts, step->total_ns, metrics);
  add_checkpoint_metrics(facts, metrics);
  add_resource_metrics(facts, metrics);
  return metrics;
}

}  // namespace autotuned::profiler
