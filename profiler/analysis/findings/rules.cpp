// SPDX-License-Identifier: Apache-2.0
// The table of rules, with those of rules_input.cpp. docs/metrics.md says what the signals are.
#include <array>
#include <vector>

#include "profiler/analysis/findings/rule_lists.hpp"

namespace autotuned::analysis {
namespace {

constexpr std::array kRules = {
    // The device has nothing to do.
    Rule{
        .id = "low_utilization",
        .signal = "device.utilization_ratio",
        .threshold = 0.5,
        .is_below = true,
        .evidence = "kernels run in {device.utilization_ratio} of the time only",
        .plugin = "batch_size",
        .knob = "batch_size",
        .advice = "give the GPU more work at a time with a larger batch, after the other findings"},
    Rule{.id = "launch_bound",
         .signal = "device.launch_wait_ratio",
         .threshold = 0.2,
         .is_below = false,
         .evidence =
             "for {device.launch_wait_ratio} of the time the GPU waits for the host to launch "
             "its next kernel (mean kernel {kernels.mean_ns}, "
             "{kernels.shorter_than_launch_share_ratio} of them shorter than their launch)",
         .plugin = "cuda_graph",
         .knob = "cuda.graph",
         .advice = "use CUDA graphs, a larger batch or torch.compile: fewer and longer kernels"},
    Rule{.id = "scalar_reads",
         .signal = "operators.scalar_read_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence = "{operators.scalar_read_ratio} of the step is spent reading single numbers "
                     "(item), which waits for the device",
         .plugin = "deferred_loss_reading",
         .knob = "train.loss_reading",
         .advice = "keep the loss as a tensor and read it every few hundred steps"},
    Rule{.id = "synchronization",
         .signal = "waiting.synchronize_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence = "{waiting.synchronize_ratio} of the step the host waits in calls that "
                     "synchronise, besides reading numbers",
         .plugin = "pinned_memory",
         .knob = "transfer.non_blocking",
         .advice =
             "remove torch.cuda.synchronize, cpu() and copies without non_blocking from the step"},
    Rule{.id = "long_gap",
         .signal = "device.longest_gap_ns",
         .threshold = 500e6,
         .is_below = false,
         .evidence = "the GPU does nothing for {device.longest_gap_ns} at a stretch",
         .plugin = "",
         .knob = "",
         .advice = "look at that stretch in the trace: checkpoints, evaluation, start of workers"},
    Rule{.id = "host_bound",
         .signal = "step.host_bound_ratio",
         .threshold = 0.8,
         .is_below = false,
         .evidence = "for {step.host_bound_ratio} of the step the GPU has nothing to do while the "
                     "host loads, calls and computes",
         .plugin = "",
         .knob = "",
         .advice = "look at the findings about loading and launches: the GPU is not what limits"},
    Rule{.id = "uneven_utilization",
         .signal = "device.idle_chunks_share_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence = "the GPU is busy on the whole, but in {device.idle_chunks_share_ratio} of "
                     "thirty equal chunks of the recording less than half of the time",
         .plugin = "",
         .knob = "",
         .advice = "look at these stretches in the trace: loading, checkpoints, evaluation"},
    Rule{
        .id = "unexplained_time",
        .signal = "step.residual_ratio",
        .threshold = 0.1,
        .is_below = false,
        .evidence = "{step.residual_ratio} of the step is in no operator, call, wait or part of "
                    "training that was recorded, although the loader is known",
        .plugin = "",
        .knob = "",
        .advice =
            "look for Python or C++ code between the operators, or record it with record_function"},
    Rule{.id = "launch_queue_full",
         .signal = "waiting.launch_queue_full_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence = "for {waiting.launch_queue_full_ratio} of the step the host waits because the "
                     "queue of launches is full",
         .plugin = "cuda_graph",
         .knob = "cuda.graph",
         .advice = "use CUDA graphs or larger kernels: the host is far ahead with many small ones"},
    Rule{.id = "device_allocations",
         .signal = "waiting.device_allocation_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence = "{waiting.device_allocation_ratio} of the step is spent in taking memory from "
                     "the driver and giving it back (cudaMalloc, cudaFree and their like), which "
                     "waits for the GPU",
         .plugin = "",
         .knob = "",
         .advice =
             "leave memory to the caching allocator, and keep shapes the same from step to step"},
    // Copies.
    Rule{.id = "pageable_copies",
         .signal = "copies.pageable_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence =
             "{copies.pageable_ratio} of the step goes into copies to the GPU from memory that "
             "is not pinned: slow, and the host waits for them",
         .plugin = "pinned_memory",
         .knob = "loader.pin_memory",
         .advice = "pin_memory=True in the DataLoader and non_blocking=True in to()"},
    Rule{.id = "exposed_copies",
         .signal = "parts.copy_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence = "{parts.copy_ratio} of the step is spent in copies while no kernel runs",
         .plugin = "pinned_memory",
         .knob = "transfer.non_blocking",
         .advice = "copy the next batch on a stream of its own while this one is computed"},
    Rule{.id = "heavy_transfer",
         .signal = "copies.host_to_device_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence = "copies to the GPU take {copies.host_to_device_ratio} of the step "
                     "({copies.per_step_bytes} each)",
         .plugin = "uint8_transfer",
         .knob = "transfer.dtype",
         .advice =
             "send images as uint8 and convert and normalise them on the GPU: a quarter of the "
             "bytes"},
    Rule{.id = "float_from_uint8",
         .signal = "loading.float_from_uint8_ratio",
         .threshold = 0.005,
         .is_below = false,
         .evidence = "8-bit data is converted to float32 on the host, "
                     "{loading.float_from_uint8_ratio} of the step",
         .plugin = "uint8_transfer",
         .knob = "transfer.dtype",
         .advice = "keep the samples uint8 and convert whole batches on the device"},
    Rule{.id = "results_copied_back",
         .signal = "copies.device_to_host_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence = "copies back from the GPU take {copies.device_to_host_ratio} of the step",
         .plugin = "deferred_loss_reading",
         .knob = "train.loss_reading",
         .advice = "leave out cpu(), numpy() and print of tensors in the step"},
    Rule{.id = "synchronous_copies",
         .signal = "waiting.synchronous_copy_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence =
             "{waiting.synchronous_copy_ratio} of the step is spent in copies that make the "
             "host wait (cudaMemcpy and its like)",
         .plugin = "pinned_memory",
         .knob = "transfer.non_blocking",
         .advice = "use cudaMemcpyAsync from pinned memory"},
    Rule{.id = "synchronous_fills",
         .signal = "waiting.synchronous_fill_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence =
             "{waiting.synchronous_fill_ratio} of the step is spent in fills that may make the "
             "host wait (cudaMemset and its like)",
         .plugin = "",
         .knob = "",
         .advice = "use cudaMemsetAsync on the stream that needs the memory"},
    // Arithmetic.
    Rule{.id = "compute_bound",
         .signal = "parts.kernel_ratio",
         .threshold = 0.9,
         .is_below = false,
         .evidence = "kernels take {parts.kernel_ratio} of the step: loading and launches cannot "
                     "make it much faster",
         .plugin = "amp",
         .knob = "precision.autocast",
         .advice = "use faster arithmetic (autocast, channels_last, torch.compile), or less of it"},
    Rule{.id = "kernel_drift",
         .signal = "kernels.drift_ratio",
         .threshold = 0.5,
         .is_below = false,
         .evidence = "one kernel takes {kernels.drift_ratio} longer in the second half of its "
                     "calls than in the first",
         .plugin = "",
         .knob = "",
         .advice =
             "see whether the GPU lowers its clocks (heat, power), or whether its input grows"},
    Rule{.id = "tensor_cores_unused",
         .signal = "kernels.without_tensor_cores_share_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence =
             "matrix products and convolutions take {kernels.without_tensor_cores_share_ratio} "
             "of the kernel time and none of them uses tensor cores",
         .plugin = "amp",
         .knob = "precision.autocast",
         .advice = "torch.autocast in bfloat16, or float16 with a GradScaler"},
    Rule{.id = "wide_arithmetic_on_cpu",
         .signal = "cpu.gemm_conv_share_ratio",
         .threshold = 0.3,
         .is_below = false,
         .evidence = "matrix products and convolutions take {cpu.gemm_conv_share_ratio} of the "
                     "operators' time",
         .plugin = "amp",
         .knob = "precision.autocast",
         .advice = "torch.autocast in bfloat16, where the CPU has AVX512-BF16 or AMX"},
    Rule{.id = "convolution_layout",
         .signal = "operators.convolution_share_ratio",
         .threshold = 0.3,
         .is_below = false,
         .evidence = "convolutions take {operators.convolution_share_ratio} of the operators' time",
         .plugin = "channels_last",
         .knob = "layout.memory_format",
         .advice = "try memory_format=torch.channels_last for the model and its input"},
    Rule{.id = "layout_conversions",
         .signal = "kernels.layout_conversion_share_ratio",
         .threshold = 0.03,
         .is_below = false,
         .evidence =
             "{kernels.layout_conversion_share_ratio} of the kernel time turns images from one "
             "memory format into the other",
         .plugin = "channels_last",
         .knob = "layout.memory_format",
         .advice = "memory_format=torch.channels_last for the model and its input"},
    Rule{.id = "unfilled_device",
         .signal = "device.unfilled_ratio",
         .threshold = 0.3,
         .is_below = false,
         .evidence = "kernels run in {device.utilization_ratio} of the time but fill only "
                     "{device.sm_efficiency_ratio} of the multiprocessors",
         .plugin = "batch_size",
         .knob = "batch_size",
         .advice = "use a larger batch: the kernels have too few blocks for this GPU"},
    Rule{
        .id = "low_occupancy",
        .signal = "device.occupancy_ratio",
        .threshold = 0.15,
        .is_below = true,
        .evidence = "kernels use {device.occupancy_ratio} of the threads that would fit",
        .plugin = "batch_size",
        .knob = "batch_size",
        .advice = "a larger batch, if kernels are small; large matrix products are fine like this"},
    Rule{.id = "gather_backward",
         .signal = "operators.gather_share_ratio",
         .threshold = 0.02,
         .is_below = false,
         .evidence =
             "gather and its backward take {operators.gather_share_ratio} of the operators' "
             "time",
         .plugin = "gather_to_indexing",
         .knob = "rewrite.gather",
         .advice = "select whole rows with index_select on the flattened batch instead of gather"},
    Rule{.id = "gradient_fills",
         .signal = "gradients.fill_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence = "filling gradients with zeros takes {gradients.fill_ratio} of the step",
         .plugin = "set_to_none",
         .knob = "optimizer.set_to_none",
         .advice = "zero_grad(set_to_none=True), the default of PyTorch 2"},
    Rule{.id = "optimizer_step",
         .signal = "optimizer.step_ratio",
         .threshold = 0.15,
         .is_below = false,
         .evidence = "the optimizer takes {optimizer.step_ratio} of the step on the host",
         .plugin = "fused_optimizer",
         .knob = "optimizer.fused",
         .advice = "fused=True or foreach=True in the optimizer; a larger batch has fewer steps"},
    Rule{.id = "small_operators",
         .signal = "operators.small_host_share_ratio",
         .threshold = 0.3,
         .is_below = false,
         .evidence =
             "operators that take under 10 us each make {operators.small_host_share_ratio} of the "
             "operators' time: calling them costs more than their work",
         .plugin = "batch_size",
         .knob = "batch_size",
         .advice = "a larger batch, or torch.compile"},
    // Memory.
    Rule{.id = "memory_full",
         .signal = "memory.peak_ratio",
         .threshold = 0.9,
         .is_below = false,
         .evidence =
             "tensors take {memory.peak_bytes} at their peak, {memory.peak_ratio} of the GPU",
         .plugin = "amp",
         .knob = "precision.autocast",
         .advice =
             "16-bit arithmetic or checkpointing of activations, before the allocator thrashes"},
    Rule{.id = "memory_unused",
         .signal = "memory.peak_ratio",
         .threshold = 0.6,
         .is_below = true,
         .evidence =
             "tensors take {memory.peak_bytes} at their peak, {memory.peak_ratio} of the GPU",
         .plugin = "batch_size",
         .knob = "batch_size",
         .advice = "there is room for a larger batch"},
    Rule{
        .id = "memory_growth",
        .signal = "memory.growth_share_ratio",
        .threshold = 0.05,
        .is_below = false,
        .evidence = "at the end of a step tensors take {memory.growth_share_ratio} more memory in "
                    "the last steps than in the first",
        .plugin = "",
        .knob = "",
        .advice = "look for tensors that a list keeps, with their graphs: loss.item() or detach()"},
    Rule{.id = "memory_fragmented",
         .signal = "memory.unused_reserve_share_ratio",
         .threshold = 0.2,
         .is_below = false,
         .evidence = "the allocator holds {memory.unused_reserve_share_ratio} of the GPU beyond "
                     "what tensors ever take",
         .plugin = "",
         .knob = "",
         .advice =
             "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and shapes that do not change"},
    Rule{.id = "large_host_blocks",
         .signal = "memory.large_blocks_per_step_count",
         .threshold = 4,
         .is_below = false,
         .evidence =
             "{memory.large_blocks_per_step_count} blocks of 128 KiB and more are allocated in "
             "a step, which the C library takes from the system each time",
         .plugin = "memory_malloc",
         .knob = "memory.malloc",
         .advice = "set MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ high, or use jemalloc"},
    // Several devices.
    Rule{.id = "communication",
         .signal = "parts.communication_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence =
             "{parts.communication_ratio} of the step is communication that nothing overlaps",
         .plugin = "batch_size",
         .knob = "batch_size",
         .advice = "accumulate gradients, compress them, or use a larger batch"},
    Rule{.id = "data_parallel",
         .signal = "distributed.devices_of_data_parallel_count",
         .threshold = 1,
         .is_below = false,
         .evidence =
             "DataParallel drives {distributed.devices_of_data_parallel_count} devices from one "
             "process",
         .plugin = "",
         .knob = "",
         .advice = "use DistributedDataParallel, one process for each device"},
    Rule{.id = "without_nccl",
         .signal = "distributed.without_nccl_count",
         .threshold = 0,
         .is_below = false,
         .evidence = "DistributedDataParallel exchanges gradients of GPUs through the host",
         .plugin = "",
         .knob = "",
         .advice = "init_process_group(\"nccl\")"},
    Rule{
        .id = "straggler",
        .signal = "ranks.imbalance_ratio",
        .threshold = 0.1,
        .is_below = false,
        .evidence =
            "the busiest rank works {ranks.imbalance_ratio} of a step longer than the mean of "
            "all, and the others wait for it",
        .plugin = "",
        .knob = "",
        .advice = "give every rank the same amount of data, and look for a slow or shared machine"},
    // The recording itself.
    Rule{.id = "slow_first_step",
         .signal = "step.first_over_median",
         .threshold = 3.0,
         .is_below = false,
         .evidence =
             "the first step takes {step.first_over_median} times the median: it still warms up",
         .plugin = "",
         .knob = "",
         .advice =
             "give the profiler's schedule more wait and warmup steps: these figures include it"},
    Rule{.id = "profiler_overhead",
         .signal = "profiler.overhead_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence = "the profiler itself takes {profiler.overhead_ratio} of the step",
         .plugin = "",
         .knob = "",
         .advice = "record fewer steps, without stacks and memory"},
};

}  // namespace

std::span<const Rule> rules() {
  static const std::vector<Rule> kAll = [] {
    const std::span<const Rule> input = input_rules();
    std::vector<Rule> all(input.begin(), input.end());
    all.insert(all.end(), kRules.begin(), kRules.end());
    return all;
  }();
  return kAll;
}

}  // namespace autotuned::analysis
