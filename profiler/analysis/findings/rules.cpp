// SPDX-License-Identifier: Apache-2.0
// The table of rules, except those of rules_input.cpp. docs/metrics.md defines the signals.
#include <array>
#include <vector>

#include "profiler/analysis/findings/rule_lists.hpp"

namespace autotuned::analysis {
namespace {

constexpr std::array kRules = {
    // The device is idle.
    Rule{.id = "low_utilization",
         .signal = "device.utilization_ratio",
         .threshold = 0.5,
         .is_below = true,
         .evidence = "kernels run only during {device.utilization_ratio} of the time",
         .plugin = "batch_size",
         .knob = "batch_size",
         .advice = "act on the other findings first, then use a larger batch, so that kernels have "
                   "more work"},
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
         .advice = "use CUDA graphs, a larger batch or torch.compile, so that kernels are fewer "
                   "and longer"},
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
         .evidence = "for {waiting.synchronize_ratio} of the step the host waits in synchronising "
                     "calls, reads of single numbers not counted",
         .plugin = "pinned_memory",
         .knob = "transfer.non_blocking",
         .advice =
             "remove torch.cuda.synchronize, cpu() and copies without non_blocking from the step"},
    Rule{.id = "long_gap",
         .signal = "device.longest_gap_ns",
         .threshold = 500e6,
         .is_below = false,
         .evidence = "the longest gap in which the GPU does nothing takes {device.longest_gap_ns}",
         .plugin = "",
         .knob = "",
         .advice = "look at this gap in the trace; usual causes are checkpoints, evaluation and "
                   "the start of workers"},
    Rule{.id = "host_bound",
         .signal = "step.host_bound_ratio",
         .threshold = 0.8,
         .is_below = false,
         .evidence = "for {step.host_bound_ratio} of the step the GPU is idle while the host loads "
                     "data, launches or computes",
         .plugin = "",
         .knob = "",
         .advice = "act on the findings about loading and launches: the host limits the rate, not "
                   "the GPU"},
    Rule{.id = "uneven_utilization",
         .signal = "device.idle_chunks_share_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence =
             "the GPU is busy on average, but in {device.idle_chunks_share_ratio} of thirty "
             "equal parts of the recording it is busy for less than half of the time",
         .plugin = "",
         .knob = "",
         .advice = "look at these parts of the trace; usual causes are loading, checkpoints and "
                   "evaluation"},
    Rule{.id = "unexplained_time",
         .signal = "step.residual_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence = "{step.residual_ratio} of the step lies outside all recorded operators, "
                     "calls, waits and training phases, and it is not loading",
         .plugin = "",
         .knob = "",
         .advice =
             "look for Python or C++ code between the operators, and mark it with record_function"},
    Rule{.id = "launch_queue_full",
         .signal = "waiting.launch_queue_full_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence = "for {waiting.launch_queue_full_ratio} of the step the host waits because the "
                     "queue of launches is full",
         .plugin = "cuda_graph",
         .knob = "cuda.graph",
         .advice = "use CUDA graphs or larger kernels, because the host launches many small "
                   "kernels far ahead"},
    Rule{.id = "device_allocations",
         .signal = "waiting.device_allocation_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence =
             "{waiting.device_allocation_ratio} of the step is spent in driver calls that allocate "
             "or free memory (such as cudaMalloc and cudaFree), which wait for the GPU",
         .plugin = "",
         .knob = "",
         .advice = "use the caching allocator, and keep shapes the same from step to step"},
    // Copies.
    Rule{.id = "pageable_copies",
         .signal = "copies.pageable_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence = "{copies.pageable_ratio} of the step is spent in copies to the GPU from "
                     "pageable memory, which are slow and make the host wait",
         .plugin = "pinned_memory",
         .knob = "loader.pin_memory",
         .advice = "set pin_memory=True in the DataLoader and non_blocking=True in to()"},
    Rule{.id = "exposed_copies",
         .signal = "parts.copy_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence = "{parts.copy_ratio} of the step is spent in copies while no kernel runs",
         .plugin = "pinned_memory",
         .knob = "transfer.non_blocking",
         .advice = "copy the next batch on a stream of its own during the step"},
    Rule{.id = "heavy_transfer",
         .signal = "copies.host_to_device_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence = "copies to the GPU take {copies.host_to_device_ratio} of the step "
                     "({copies.per_step_bytes} each)",
         .plugin = "uint8_transfer",
         .knob = "transfer.dtype",
         .advice = "transfer images as uint8, a quarter of the bytes, and convert and normalise "
                   "them on the GPU"},
    Rule{.id = "float_from_uint8",
         .signal = "loading.float_from_uint8_ratio",
         .threshold = 0.005,
         .is_below = false,
         .evidence = "converting 8-bit data to float32 on the host takes "
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
         .advice = "remove cpu(), numpy() and print of tensors from the step"},
    Rule{.id = "synchronous_copies",
         .signal = "waiting.synchronous_copy_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence = "{waiting.synchronous_copy_ratio} of the step is spent in synchronous copies "
                     "such as cudaMemcpy, which make the host wait",
         .plugin = "pinned_memory",
         .knob = "transfer.non_blocking",
         .advice = "use cudaMemcpyAsync from pinned memory"},
    Rule{.id = "synchronous_fills",
         .signal = "waiting.synchronous_fill_ratio",
         .threshold = 0.01,
         .is_below = false,
         .evidence = "{waiting.synchronous_fill_ratio} of the step is spent in synchronous fills "
                     "such as cudaMemset, which can make the host wait",
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
         .advice =
             "use faster arithmetic (autocast, channels_last, torch.compile) or a smaller model"},
    Rule{.id = "kernel_drift",
         .signal = "kernels.drift_ratio",
         .threshold = 0.5,
         .is_below = false,
         .evidence = "a kernel takes {kernels.drift_ratio} longer in the second half of its calls "
                     "than in the first half",
         .plugin = "",
         .knob = "",
         .advice = "check whether the GPU lowers its clocks because of heat or power, or whether "
                   "the kernel's input grows"},
    Rule{.id = "tensor_cores_unused",
         .signal = "kernels.without_tensor_cores_share_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence =
             "matrix products and convolutions take {kernels.without_tensor_cores_share_ratio} "
             "of the kernel time and none of them uses tensor cores",
         .plugin = "amp",
         .knob = "precision.autocast",
         .advice = "use torch.autocast with bfloat16, or float16 with a GradScaler"},
    Rule{.id = "wide_arithmetic_on_cpu",
         .signal = "cpu.gemm_conv_share_ratio",
         .threshold = 0.3,
         .is_below = false,
         .evidence = "matrix products and convolutions take {cpu.gemm_conv_share_ratio} of the "
                     "operators' time",
         .plugin = "amp",
         .knob = "precision.autocast",
         .advice = "use torch.autocast with bfloat16 if the CPU has AVX512-BF16 or AMX"},
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
         .evidence = "{kernels.layout_conversion_share_ratio} of the kernel time is spent in "
                     "conversions between memory formats",
         .plugin = "channels_last",
         .knob = "layout.memory_format",
         .advice = "set memory_format=torch.channels_last for the model and its input"},
    Rule{.id = "unfilled_device",
         .signal = "device.unfilled_ratio",
         .threshold = 0.3,
         .is_below = false,
         .evidence = "kernels run in {device.utilization_ratio} of the time but fill only "
                     "{device.sm_efficiency_ratio} of the multiprocessors",
         .plugin = "batch_size",
         .knob = "batch_size",
         .advice = "use a larger batch: the kernels have too few blocks for this GPU"},
    Rule{.id = "low_occupancy",
         .signal = "device.occupancy_ratio",
         .threshold = 0.15,
         .is_below = true,
         .evidence = "kernels use {device.occupancy_ratio} of the threads that the GPU can hold",
         .plugin = "batch_size",
         .knob = "batch_size",
         .advice = "use a larger batch if kernels are small; large matrix products need no higher "
                   "occupancy"},
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
         .advice = "use zero_grad(set_to_none=True), the default of PyTorch 2"},
    Rule{.id = "optimizer_step",
         .signal = "optimizer.step_ratio",
         .threshold = 0.15,
         .is_below = false,
         .evidence = "the optimizer takes {optimizer.step_ratio} of the step on the host",
         .plugin = "fused_optimizer",
         .knob = "optimizer.fused",
         .advice = "set fused=True or foreach=True in the optimizer, or use a larger batch, which "
                   "needs fewer steps"},
    Rule{.id = "small_operators",
         .signal = "operators.small_host_share_ratio",
         .threshold = 0.3,
         .is_below = false,
         .evidence =
             "operators that take less than 10 us each take {operators.small_host_share_ratio} of "
             "the operators' time, so their calls cost more than their work",
         .plugin = "batch_size",
         .knob = "batch_size",
         .advice = "use a larger batch, or torch.compile"},
    // Memory.
    Rule{.id = "memory_full",
         .signal = "memory.peak_ratio",
         .threshold = 0.9,
         .is_below = false,
         .evidence =
             "tensors take {memory.peak_bytes} at their peak, {memory.peak_ratio} of the GPU",
         .plugin = "amp",
         .knob = "precision.autocast",
         .advice = "use 16-bit arithmetic or checkpointing of activations"},
    Rule{.id = "memory_unused",
         .signal = "memory.peak_ratio",
         .threshold = 0.6,
         .is_below = true,
         .evidence =
             "tensors take {memory.peak_bytes} at their peak, {memory.peak_ratio} of the GPU",
         .plugin = "batch_size",
         .knob = "batch_size",
         .advice = "use a larger batch: the GPU has memory for it"},
    Rule{.id = "memory_growth",
         .signal = "memory.growth_share_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence = "at the end of a step tensors take {memory.growth_share_ratio} more memory in "
                     "the last steps than in the first",
         .plugin = "",
         .knob = "",
         .advice = "look for lists that keep tensors and their graphs, and keep loss.item() or "
                   "detach() instead"},
    Rule{
        .id = "memory_fragmented",
        .signal = "memory.unused_reserve_share_ratio",
        .threshold = 0.2,
        .is_below = false,
        .evidence = "the allocator holds {memory.unused_reserve_share_ratio} of the GPU's memory "
                    "more than the tensors take at their peak",
        .plugin = "",
        .knob = "",
        .advice = "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and keep shapes the same"},
    Rule{.id = "large_host_blocks",
         .signal = "memory.large_blocks_per_step_count",
         .threshold = 4,
         .is_below = false,
         .evidence = "a step allocates {memory.large_blocks_per_step_count} blocks of 128 KiB or "
                     "more, each of which the C library takes from the operating system",
         .plugin = "memory_malloc",
         .knob = "memory.malloc",
         .advice = "raise MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_, or use jemalloc"},
    // Several devices.
    Rule{.id = "communication",
         .signal = "parts.communication_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence = "{parts.communication_ratio} of the step is communication without overlapping "
                     "computation",
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
         .advice = "call init_process_group(\"nccl\")"},
    Rule{.id = "straggler",
         .signal = "ranks.imbalance_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence = "the busiest rank works {ranks.imbalance_ratio} of a step longer than the "
                     "mean of all ranks, and the other ranks wait for it",
         .plugin = "",
         .knob = "",
         .advice =
             "give every rank the same amount of data, and check for a slow or shared machine"},
    // The recording itself.
    Rule{.id = "slow_first_step",
         .signal = "step.first_over_median",
         .threshold = 3.0,
         .is_below = false,
         .evidence = "the first step takes {step.first_over_median} times the median, because it "
                     "includes the warm-up",
         .plugin = "",
         .knob = "",
         .advice = "give the profiler's schedule more wait and warmup steps, because these figures "
                   "include the first step"},
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
