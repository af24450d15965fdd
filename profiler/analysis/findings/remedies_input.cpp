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
// What hides behind the step costs nothing: only the waiting can go.
constexpr const char* kWaiting = "parts.data_loading_ratio";
constexpr const char* kNoWaiting =
    "if no step waited for its batch any more: all of the waiting ({parts.data_loading_ratio})";

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
    Remedy{.rule = "prefetch_starved",
           .share = kWaiting,
           .reasoning = kNoWaiting,
           .code = kMoreWorkers},
    Remedy{.rule = "loader_order",
           .share = kWaiting,
           .reasoning = kNoWaiting,
           .code = "transform = v2.Compose([\n"
                   "    v2.RandomResizedCrop(224),         # first: what follows has fewer pixels\n"
                   "    v2.RandomHorizontalFlip(),\n"
                   "    v2.ColorJitter(0.4, 0.4, 0.4),\n"
                   "    v2.ToDtype(torch.float32, scale=True),\n"
                   "])"},
    Remedy{.rule = "too_few_cores",
           .share = kWaiting,
           .reasoning = kNoWaiting,
           .code = "# once, before training: decoded and resized, so that a step only copies\n"
                   "samples = torch.stack([resize(image) for image, _ in dataset])  # uint8\n"
                   "labels = torch.tensor([label for _, label in dataset])\n"
                   "dataset = torch.utils.data.TensorDataset(samples, labels)"},
    Remedy{.rule = "too_many_workers",
           .otherwise = Severity::low,
           .reasoning =
               "not bounded by this trace: threads that share a core slow each other and the "
               "step down",
           .code = "workers = len(os.sched_getaffinity(0))\n"
                   "loader = DataLoader(dataset, ..., num_workers=workers)  # ...: as it is"},
    Remedy{.rule = "uneven_workers",
           .share = kWaiting,
           .reasoning = kNoWaiting,
           .code = "# indices of about equal cost for each worker: large and small samples mixed\n"
                   "loader = DataLoader(dataset, ...,  # ...: your arguments stay as they are\n"
                   "                    prefetch_factor=4)"},
    Remedy{
        .rule = "slow_reading",
        .share = kWaiting,
        .reasoning = kNoWaiting,
        .code =
            "class InMemory(torch.utils.data.Dataset):\n"
            "    def __init__(self, files): self.bytes = [open(f, \"rb\").read() for f in files]\n"
            "    def __len__(self): return len(self.bytes)\n"
            "    def __getitem__(self, i): return decode(self.bytes[i])"},
    Remedy{.rule = "cold_cache",
           .share = kWaiting,
           .reasoning = kNoWaiting,
           .code = "for file in files:  # once, before the first step\n"
                   "    with open(file, \"rb\") as opened:\n"
                   "        while opened.read(1 << 20): pass"},
};

}  // namespace

std::span<const Remedy> input_remedies() {
  return kInputRemedies;
}

}  // namespace autotuned::analysis
