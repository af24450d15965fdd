// SPDX-License-Identifier: Apache-2.0
// The rules about loading. docs/metrics.md defines the signals.
#include <array>

#include "profiler/analysis/findings/rule_lists.hpp"

namespace autotuned::analysis {
namespace {

constexpr std::array kInputRules = {
    Rule{.id = "data_loading",
         .signal = "parts.data_loading_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence = "{parts.data_loading_ratio} of the step is spent waiting for the next batch "
                     "or preparing it",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "raise num_workers of the DataLoader, or make loading cheaper"},
    Rule{.id = "loading_in_training_process",
         .signal = "loading.in_training_process_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence = "the DataLoader has no workers, and the training process spends "
                     "{loading.in_training_process_ratio} of the step preparing batches",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "set num_workers to 1 or more, so that batches are prepared during the step"},
    Rule{.id = "periodic_wait",
         .signal = "loading.periodic_wait_ratio",
         .threshold = 0.05,
         .is_below = false,
         .evidence = "a long wait for data recurs every {loading.wait_period_count} steps "
                     "({loading.periodic_wait_ratio} of the time), which shows as many workers, "
                     "each too slow",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "make the transforms cheaper (cheap ones and crops first), or add workers"},
    Rule{.id = "loading_hidden",
         .signal = "loading.unnamed_ratio",
         .threshold = 0.2,
         .is_below = false,
         .evidence = "{loading.unnamed_ratio} of the step lies outside all operators, and the "
                     "trace has no loading events, so this may be loading",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "load with a DataLoader, or mark the loading with record_function"},
    Rule{
        .id = "uneven_steps",
        .signal = "step.slowest_over_median",
        .threshold = 2.0,
        .is_below = false,
        .evidence = "the slowest step after the first takes {step.slowest_over_median} times the "
                    "median",
        .plugin = "",
        .knob = "loader.prefetch_batches",
        .advice =
            "raise prefetch_factor if loading is uneven; otherwise look at that step in the trace"},
    Rule{.id = "loading_hidden_in_operators",
         .signal = "loading.unnamed_operators_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence = "{loading.unnamed_operators_ratio} of the step is spent in host operators "
                     "outside loader, model, loss and optimizer; they may be loading or transforms",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "move these operators into the Dataset of a DataLoader with workers, or onto "
                   "the device"},
    Rule{
        .id = "prefetch_starved",
        .signal = "loading.starved_steps_share_ratio",
        .threshold = 0.2,
        .is_below = false,
        .evidence =
            "{loading.starved_steps_share_ratio} of the steps wait more than 30 ms for their batch",
        .plugin = "prefetch_depth",
        .knob = "loader.prefetch_batches",
        .advice = "raise num_workers and prefetch_factor"},
    Rule{.id = "loader_order",
         .signal = "loading.before_crop_share_ratio",
         .threshold = 0.2,
         .is_below = false,
         .evidence = "{loading.before_crop_share_ratio} of the time for preparing samples is spent "
                     "in transforms before the crop, on pixels that the crop discards",
         .plugin = "crop_first",
         .knob = "input.order",
         .advice = "crop first, unless another transform needs the pixels outside the crop"},
    Rule{.id = "too_few_cores",
         .signal = "loading.cores_needed_over_cores",
         .threshold = 1.0,
         .is_below = false,
         .evidence =
             "preparing samples as fast as the step can train them needs {loading.cores_needed} "
             "cores, but there are {machine.cpus_count}, so more workers alone do not help",
         .plugin = "crop_decoding",
         .knob = "input.decode",
         .advice =
             "use cheaper transforms, keep samples decoded, or move transforms onto the device"},
    Rule{
        .id = "too_many_workers",
        .signal = "loading.threads_per_core",
        .threshold = 2.0,
        .is_below = false,
        .evidence = "{loading.threads_count} threads prepare samples on {machine.cpus_count} cores",
        .plugin = "num_workers",
        .knob = "loader.workers",
        .advice = "use at most as many workers as there are cores"},
    Rule{.id = "uneven_workers",
         .signal = "loading.hottest_over_mean",
         .threshold = 2.5,
         .is_below = false,
         .evidence = "the busiest of {loading.threads_count} loader threads works "
                     "{loading.hottest_over_mean} times as long as the mean of all",
         .plugin = "",
         .knob = "",
         .advice = "give workers smaller portions of samples, of about the same cost"},
    Rule{.id = "slow_reading",
         .signal = "loading.read_share_ratio",
         .threshold = 0.5,
         .is_below = false,
         .evidence = "reading takes {loading.read_share_ratio} of the time for preparing samples",
         .plugin = "input_cache",
         .knob = "input.cache",
         .advice = "keep the data in memory or on a faster disk, and read ahead"},
    Rule{.id = "cold_cache",
         .signal = "loading.read_first_over_last",
         .threshold = 3.0,
         .is_below = false,
         .evidence = "the first reads take {loading.read_first_over_last} times as long as the "
                     "last ones, which the operating system serves from memory",
         .plugin = "page_cache",
         .knob = "input.read_ahead",
         .advice = "read the files once before training, or profile later steps"},
};

}  // namespace

std::span<const Rule> input_rules() {
  return kInputRules;
}

}  // namespace autotuned::analysis
