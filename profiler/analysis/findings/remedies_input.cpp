// SPDX-License-Identifier: Apache-2.0
// The remedies of the rules about loading.
#include <array>

#include "profiler/analysis/findings/remedies.hpp"

namespace autotuned::analysis {
namespace {

constexpr const char* kMoreWorkers =
    "loader = DataLoader(dataset, ...,  # ...: your arguments stay as they are\n"
    "                    num_workers=len(os.sched_getaffinity(0)), prefetch_factor=4,\n"
    "                    persistent_workers=True)";
// Loading that overlaps with the step costs nothing, so only the waiting can be saved.
constexpr const char* kWaiting = "parts.data_loading_ratio";

// The remedy of a rule that can save all of that waiting, and no more.
constexpr Remedy waited_for(const char* rule, const char* code) {
  return {.rule = rule,
          .share = kWaiting,
          .reasoning =
              "if no step waited for its batch any more: all of the waiting "
              "({parts.data_loading_ratio})",
          .code = code};
}

constexpr std::array kInputRemedies = {
    Remedy{.rule = "data_loading",
           .share = kWaiting,
           .reasoning = "if no step waited for its batch any more",
           .code = kMoreWorkers},
    Remedy{.rule = "loading_in_training_process",
           .share = "loading.in_training_process_ratio",
           .reasoning = "if workers prepared every batch during the step before",
           .code = kMoreWorkers},
    Remedy{.rule = "periodic_wait",
           .share = "loading.periodic_wait_ratio",
           .reasoning = "if the long waits were gone",
           .code = kMoreWorkers},
    Remedy{.rule = "loading_hidden",
           .share = "loading.unnamed_ratio",
           .reasoning = "if all of that time is loading, and none of it were left",
           .code =
               "with torch.profiler.record_function(\"load\"):\n"
               "    batch = next_batch()  # your own loading: the next trace then has its time"},
    Remedy{.rule = "uneven_steps",
           .otherwise = Severity::low,
           .code = "loader = DataLoader(dataset, ...,  # ...: your arguments stay as they are\n"
                   "                    prefetch_factor=8, persistent_workers=True)"},
    Remedy{.rule = "loading_hidden_in_operators",
           .share = "loading.unnamed_operators_ratio",
           .reasoning = "if all of these operators ran in workers, or not at all",
           .code =
               "class Prepared(torch.utils.data.Dataset):\n"
               "    def __len__(self): return len(self.samples)\n"
               "    def __getitem__(self, i): return transform(self.samples[i]), self.labels[i]\n"
               "# and a DataLoader with num_workers > 0 around it"},
    waited_for("prefetch_starved", kMoreWorkers),
    waited_for("loader_order",
               "transform = v2.Compose([\n"
               "    v2.RandomResizedCrop(224),         # first: what follows has fewer pixels\n"
               "    v2.RandomHorizontalFlip(),\n"
               "    v2.ColorJitter(0.4, 0.4, 0.4),\n"
               "    v2.ToDtype(torch.float32, scale=True),\n"
               "])"),
    waited_for("too_few_cores",
               "# once, before training: decoded and resized, so that a step only copies\n"
               "samples = torch.stack([resize(image) for image, _ in dataset])  # uint8\n"
               "labels = torch.tensor([label for _, label in dataset])\n"
               "dataset = torch.utils.data.TensorDataset(samples, labels)"),
    Remedy{.rule = "too_many_workers",
           .otherwise = Severity::low,
           .reasoning =
               "not bounded by this trace: threads that share a core slow each other and the "
               "step down",
           .code = "workers = len(os.sched_getaffinity(0))\n"
                   "loader = DataLoader(dataset, ..., num_workers=workers)  # ...: as it is"},
    waited_for("uneven_workers",
               "# indices of about equal cost for each worker: large and small samples mixed\n"
               "loader = DataLoader(dataset, ...,  # ...: your arguments stay as they are\n"
               "                    prefetch_factor=4)"),
    waited_for(
        "slow_reading",
        "class InMemory(torch.utils.data.Dataset):\n"
        "    def __init__(self, files): self.bytes = [open(f, \"rb\").read() for f in files]\n"
        "    def __len__(self): return len(self.bytes)\n"
        "    def __getitem__(self, i): return decode(self.bytes[i])"),
    waited_for("cold_cache",
               "for file in files:  # once, before the first step\n"
               "    with open(file, \"rb\") as opened:\n"
               "        while opened.read(1 << 20): pass"),
};

}  // namespace

std::span<const Remedy> input_remedies() {
  return kInputRemedies;
}

}  // namespace autotuned::analysis
