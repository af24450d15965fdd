// SPDX-License-Identifier: Apache-2.0
// The rules about loading. docs/metrics.md says what the signals are.
#include <array>

#include "profiler/analysis/findings/rule_lists.hpp"

namespace autotuned::analysis {
namespace {

constexpr std::array kRules = {
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
    Rule{.id = "loading_hidden_in_operators",
         .signal = "loading.unnamed_operators_ratio",
         .threshold = 0.1,
         .is_below = false,
         .evidence =
             "{loading.unnamed_operators_ratio} of the step goes into operators on the host that "
             "belong to no loader, model, loss or optimizer: loading or transforms may hide there",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "move them into the Dataset of a DataLoader with workers, or onto the device"},
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
         .evidence = "{loading.before_crop_share_ratio} of the time that making samples takes goes "
                     "into transforms that run before the crop, on pixels that it throws away",
         .plugin = "crop_first",
         .knob = "input.order",
         .advice = "crop first, where the other transforms do not look at what is outside"},
    Rule{.id = "too_few_cores",
         .signal = "loading.cores_needed_over_cores",
         .threshold = 1.0,
         .is_below = false,
         .evidence =
             "making samples as fast as the step could train them takes {loading.cores_needed} "
             "cores, and there are {machine.cpus_count}: more workers alone do not help",
         .plugin = "crop_decoding",
         .knob = "input.decode",
         .advice = "make samples cheaper, keep them decoded, or move transforms onto the device"},
    Rule{.id = "too_many_workers",
         .signal = "loading.threads_per_core",
         .threshold = 2.0,
         .is_below = false,
         .evidence = "{loading.threads_count} threads make samples on {machine.cpus_count} cores",
         .plugin = "num_workers",
         .knob = "loader.workers",
         .advice = "use no more workers than there are cores"},
    Rule{.id = "uneven_workers",
         .signal = "loading.hottest_over_mean",
         .threshold = 2.5,
         .is_below = false,
         .evidence = "the busiest of {loading.threads_count} threads that make samples works "
                     "{loading.hottest_over_mean} times as long as the mean",
         .plugin = "",
         .knob = "",
         .advice = "give every worker samples of the same cost, in smaller portions"},
    Rule{.id = "slow_reading",
         .signal = "loading.read_share_ratio",
         .threshold = 0.5,
         .is_below = false,
         .evidence =
             "reading takes {loading.read_share_ratio} of the time that making samples takes",
         .plugin = "input_cache",
         .knob = "input.cache",
         .advice = "keep the data in memory or on a faster disk, and read ahead"},
    Rule{.id = "cold_cache",
         .signal = "loading.read_first_over_last",
         .threshold = 3.0,
         .is_below = false,
         .evidence = "the first reads take {loading.read_first_over_last} times as long as the "
                     "last: the data comes from memory only later",
         .plugin = "page_cache",
         .knob = "input.read_ahead",
         .advice = "read the files once before training, or judge by later steps"},
};

}  // namespace

std::span<const Rule> input_rules() {
  return kRules;
}

}  // namespace autotuned::analysis
