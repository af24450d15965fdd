// SPDX-License-Identifier: Apache-2.0
// The table of remedies, except those of remedies_input.cpp.
#include "profiler/analysis/findings/remedies.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>
#include <vector>

namespace autotuned::analysis {
namespace {

constexpr const char* kGone = "if all of that time were gone";
constexpr const char* kFasterKernels =
    "if these kernels took no time at all ({parts.kernel_ratio} of the step is kernels): faster "
    "arithmetic saves a part of it";
constexpr const char* kFasterOperators =
    "if these operators took no time at all ({parts.cpu_ratio} of the step is operators on the "
    "host): faster arithmetic saves a part of it";

constexpr const char* kLargerBatch =
    "loader = DataLoader(dataset, ..., batch_size=2 * batch_size)  # ...: as it is\n"
    "for group in optimizer.param_groups: group[\"lr\"] *= 2  # another training: compare accuracy";
constexpr const char* kPinnedCopies =
    "loader = DataLoader(dataset, ..., pin_memory=True)  # ...: your arguments stay as they are\n"
    "for images, labels in loader:\n"
    "    images = images.to(device, non_blocking=True)\n"
    "    labels = labels.to(device, non_blocking=True)";
constexpr const char* kGraphs =
    "model = torch.compile(model, mode=\"reduce-overhead\")  # fuses kernels, replays CUDA graphs";
constexpr const char* kAutocast =
    "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
    "    loss = loss_function(model(images), labels)\n"
    "loss.backward()";
constexpr const char* kUint8 =
    "# the Dataset gives uint8; batches become floats where they are used\n"
    "images = images.to(device, non_blocking=True).float().div_(255).sub_(mean).div_(std)";
constexpr const char* kGrowingSegments =
    "import os\n"
    "os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"expandable_segments:True\"\n"
    "import torch  # after the variable is set";
constexpr const char* kChannelsLast =
    "model = model.to(memory_format=torch.channels_last)\n"
    "images = images.to(memory_format=torch.channels_last)  # of every batch";

constexpr std::array kRemedies = {
    // The device is idle.
    Remedy{.rule = "low_utilization",
           .share = "device.utilization_ratio",
           .is_rest = true,
           .reasoning = "if a kernel ran at every moment: what {device.utilization_ratio} of use "
                        "leaves",
           .code = kLargerBatch},
    Remedy{.rule = "launch_bound",
           .share = "device.launch_wait_ratio",
           .reasoning = "if every kernel were launched in time",
           .code = kGraphs},
    Remedy{.rule = "scalar_reads",
           .share = "operators.scalar_read_ratio",
           .reasoning = "if no step waited for a number; a read of the last step still has to wait",
           .code = "losses.append(loss.detach())  # waits for nothing\n"
                   "if len(losses) == 100:\n"
                   "    print(torch.stack(losses).mean().item())\n"
                   "    losses.clear()"},
    Remedy{.rule = "synchronization",
           .share = "waiting.synchronize_ratio",
           .reasoning = "if the host never waited; the device's own work stays",
           .code = kPinnedCopies},
    Remedy{.rule = "long_gap", .otherwise = Severity::low},
    Remedy{.rule = "host_bound",
           .share = "step.host_bound_ratio",
           .reasoning = "if the host always kept ahead of the GPU"},
    Remedy{.rule = "uneven_utilization", .otherwise = Severity::low},
    Remedy{.rule = "unexplained_time",
           .share = "step.residual_ratio",
           .reasoning = kGone,
           .code = "with torch.profiler.record_function(\"metrics\"):  # your own words\n"
                   "    update_metrics()  # code between operators: the next trace has its time"},
    Remedy{.rule = "launch_queue_full",
           .share = "waiting.launch_queue_full_ratio",
           .reasoning = kGone,
           .code = kGraphs},
    Remedy{.rule = "device_allocations",
           .share = "waiting.device_allocation_ratio",
           .reasoning = kGone,
           .code = kGrowingSegments},
    // Copies.
    Remedy{.rule = "pageable_copies",
           .share = "copies.pageable_ratio",
           .reasoning = "if these copies ran beside kernels",
           .code = kPinnedCopies},
    Remedy{.rule = "exposed_copies",
           .share = "parts.copy_ratio",
           .reasoning = "if every copy ran beside kernels",
           .code = "copies = torch.cuda.Stream()\n"
                   "with torch.cuda.stream(copies):  # during the step before\n"
                   "    following = images.to(device, non_blocking=True)\n"
                   "torch.cuda.current_stream().wait_stream(copies)  # before it is used"},
    Remedy{
        .rule = "heavy_transfer",
        .share = "copies.host_to_device_ratio",
        .reasoning = "if the copies took no time at all; a quarter of the bytes saves a part of it",
        .code = kUint8},
    Remedy{.rule = "float_from_uint8",
           .share = "loading.float_from_uint8_ratio",
           .reasoning = kGone,
           .code = kUint8},
    Remedy{.rule = "results_copied_back",
           .share = "copies.device_to_host_ratio",
           .reasoning = kGone,
           .code = "correct += (logits.argmax(1) == labels).sum()  # stays on the GPU\n"
                   "accuracy = correct.item() / samples            # once, after the epoch"},
    Remedy{.rule = "synchronous_copies",
           .share = "waiting.synchronous_copy_ratio",
           .reasoning = "if these copies ran beside kernels",
           .code = kPinnedCopies},
    Remedy{.rule = "synchronous_fills",
           .share = "waiting.synchronous_fill_ratio",
           .reasoning = kGone,
           .code = "buffer.zero_()  # fills on the current stream, instead of cudaMemset"},
    // Arithmetic.
    Remedy{.rule = "compute_bound",
           .reasoning = "not bounded by this trace: only a measurement shows how much faster other "
                        "arithmetic is",
           .code = kAutocast},
    Remedy{.rule = "kernel_drift", .otherwise = Severity::medium},
    Remedy{.rule = "tensor_cores_unused",
           .share = "kernels.without_tensor_cores_share_ratio",
           .of = "parts.kernel_ratio",
           .reasoning = kFasterKernels,
           .code = kAutocast},
    Remedy{.rule = "wide_arithmetic_on_cpu",
           .share = "cpu.gemm_conv_share_ratio",
           .of = "parts.cpu_ratio",
           .reasoning = kFasterOperators,
           .code = "with torch.autocast(\"cpu\", dtype=torch.bfloat16):\n"
                   "    loss = loss_function(model(images), labels)\n"
                   "loss.backward()"},
    Remedy{.rule = "convolution_layout",
           .share = "operators.convolution_share_ratio",
           .of = kOfOperators,
           .reasoning = "if convolutions took no time at all; another layout saves a part of it",
           .code = kChannelsLast},
    Remedy{.rule = "layout_conversions",
           .share = "kernels.layout_conversion_share_ratio",
           .of = "parts.kernel_ratio",
           .reasoning = "if nothing were converted any more",
           .code = kChannelsLast},
    Remedy{.rule = "unfilled_device",
           .share = "device.unfilled_ratio",
           .reasoning = "if every kernel filled all multiprocessors",
           .code = kLargerBatch},
    Remedy{.rule = "low_occupancy", .otherwise = Severity::low, .code = kLargerBatch},
    Remedy{.rule = "gather_backward",
           .share = "operators.gather_share_ratio",
           .of = kOfOperators,
           .reasoning = "if gather and its backward took no time at all",
           .code = "rows = indices + torch.arange(batch, device=x.device)[:, None] * length  # x: "
                   "batch, length, width\n"
                   "kept = x.flatten(0, 1).index_select(0, rows.flatten()).view(batch, -1, width)"},
    Remedy{.rule = "gradient_fills",
           .share = "gradients.fill_ratio",
           .reasoning = kGone,
           .code = "optimizer.zero_grad(set_to_none=True)"},
    Remedy{.rule = "optimizer_step",
           .share = "optimizer.step_ratio",
           .reasoning = "if the optimizer took no time at all; a fused one saves a part of it",
           .code = "optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)"},
    Remedy{
        .rule = "small_operators",
        .share = "operators.small_host_share_ratio",
        .of = "parts.cpu_ratio",
        .reasoning = "if these operators took no time at all",
        .code = "model = torch.compile(model)  # one kernel in the place of many small operators"},
    // Memory.
    Remedy{.rule = "memory_full",
           .otherwise = Severity::medium,
           .reasoning = "saves memory, not time: with a little more memory the job would end",
           .code =
               "from torch.utils.checkpoint import checkpoint\n"
               "x = checkpoint(block, x, use_reentrant=False)  # recomputes instead of keeping"},
    Remedy{.rule = "memory_unused", .code = kLargerBatch},
    Remedy{.rule = "memory_growth",
           .otherwise = Severity::high,
           .reasoning = "saves memory, not time: a job that grows in every step runs out of memory",
           .code = "losses.append(loss.detach())  # without detach() the list keeps the graph"},
    Remedy{.rule = "memory_fragmented", .otherwise = Severity::low, .code = kGrowingSegments},
    Remedy{.rule = "large_host_blocks",
           .otherwise = Severity::low,
           .reasoning =
               "not bounded by this trace: the system's work for fresh pages lies inside of "
               "the operators",
           .code = "# in the shell that starts the program\n"
                   "export MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=1073741824"},
    // Several devices.
    Remedy{
        .rule = "communication",
        .share = "parts.communication_ratio",
        .reasoning = "if all of it ran beside computation",
        .code =
            "with contextlib.ExitStack() as stack:  # gradients are exchanged every fourth step\n"
            "    if step % 4 != 3: stack.enter_context(model.no_sync())\n"
            "    (loss_function(model(images), labels) / 4).backward()"},
    Remedy{.rule = "data_parallel",
           .otherwise = Severity::medium,
           .code = "# torchrun --nproc-per-node=gpu train.py\n"
                   "torch.distributed.init_process_group(\"nccl\")\n"
                   "model = torch.nn.parallel.DistributedDataParallel(model.to(local_rank),\n"
                   "                                                  device_ids=[local_rank])"},
    Remedy{.rule = "without_nccl",
           .share = "parts.communication_ratio",
           .otherwise = Severity::high,
           .reasoning = "if all of the communication ran beside computation",
           .code = "torch.distributed.init_process_group(\"nccl\")"},
    Remedy{
        .rule = "straggler",
        .share = "ranks.imbalance_ratio",
        .reasoning = "if every rank had the same work",
        .code =
            "sampler = torch.utils.data.DistributedSampler(dataset, shuffle=True, drop_last=True)\n"
            "loader = DataLoader(dataset, ..., sampler=sampler)  # ...: as it is, without shuffle"},
    // The recording itself.
    Remedy{.rule = "slow_first_step",
           .code = "schedule = torch.profiler.schedule(wait=5, warmup=5, active=10)"},
    Remedy{.rule = "profiler_overhead",
           .code = "schedule = torch.profiler.schedule(wait=5, warmup=5, active=3)\n"
                   "with torch.profiler.profile(schedule=schedule, with_stack=False, "
                   "profile_memory=False,\n"
                   "                            on_trace_ready=handler) as profiler: ..."},
};

std::optional<double> signal_of(const char* name, const Signals& signals) {
  const auto found = signals.find(name);
  return found == signals.end() ? std::nullopt : std::optional(found->second);
}

// The operators' share is that of the device's time if there is a device, else of the host's time.
std::optional<double> whole_of(std::string_view name, const Signals& signals) {
  if (name.empty()) return 1.0;
  if (name != kOfOperators) return signal_of(std::string(name).c_str(), signals);
  const auto on_device = signal_of("parts.kernel_ratio", signals);
  return on_device ? on_device : signal_of("parts.cpu_ratio", signals);
}

}  // namespace

std::span<const Remedy> remedies() {
  static const std::vector<Remedy> kAll = [] {
    const std::span<const Remedy> input = input_remedies();
    std::vector<Remedy> all(input.begin(), input.end());
    all.insert(all.end(), kRemedies.begin(), kRemedies.end());
    return all;
  }();
  return kAll;
}

const Remedy& remedy_of(const Rule& rule) {
  const std::span<const Remedy> all = remedies();
  const auto found = std::ranges::find(all, std::string_view(rule.id), [](const Remedy& remedy) {
    return std::string_view(remedy.rule);
  });
  assert(found != all.end());
  return *found;
}

std::optional<double> most_saved_ratio(const Remedy& remedy, const Signals& signals) {
  if (*remedy.share == '\0') return std::nullopt;
  const auto share = signal_of(remedy.share, signals);
  const auto whole = whole_of(remedy.of, signals);
  if (!share || !whole) return std::nullopt;
  return std::clamp((remedy.is_rest ? 1 - *share : *share) * *whole, 0.0, 1.0);
}

}  // namespace autotuned::analysis
