// SPDX-License-Identifier: Apache-2.0
// The table of rules. docs/metrics.md says what the signals are.
#include <array>

#include "profiler/analysis/findings.hpp"

namespace autotuned::analysis {
namespace {

constexpr std::array kRules = {
    // Input.
    Rule{.id = "data_loading",
         .signal = "parts.data_loading_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence =
             "{parts.data_loading_ratio} of the step is spent waiting for the next batch, or "
             "making it",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "raise num_workers of the DataLoader, or make loading cheaper"},
    Rule{.id = "loading_in_training_process",
         .signal = "loading.in_training_process_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence =
             "the DataLoader has no workers: the training process makes every batch itself, "
             "{loading.in_training_process_ratio} of the step",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "set num_workers to 1 or more, so that batches are made beside the step"},
    Rule{
        .id = "periodic_wait",
        .signal = "loading.periodic_wait_ratio",
        .threshold = 0.05,
        .is_below = false,
        .evidence = "a long wait for data comes back every {loading.wait_period_count} steps "
                    "({loading.periodic_wait_ratio} of the time): that many workers, each too slow",
        .plugin = "num_workers",
        .knob = "loader.workers",
        .advice = "make the transforms cheaper, cheapest and most selective first, or add workers"},
    Rule{.id = "loading_hidden",
         .signal = "loading.unnamed_ratio",
         .threshold = 0.2,
         .is_below = false,
         .evidence =
             "{loading.unnamed_ratio} of the step is in no operator, and the trace names no "
             "loading: it may be in there",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "load with a DataLoader, or put record_function around the loading to see it"},
    Rule{.id = "uneven_steps",
         .signal = "step.slowest_over_median",
         .threshold = 2.0,
         .is_below = false,
         .evidence = "the slowest step after the first takes {step.slowest_over_median} times the "
                     "median",
         .plugin = "",
         .knob = "loader.prefetch_batches",
         .advice =
             "raise prefetch_factor where loading is uneven; else look at that step in the trace"},
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
         .plugin = "batch_size",
         .knob = "batch_size",
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
  return kRules;
}

}  // namespace autotuned::analysis
