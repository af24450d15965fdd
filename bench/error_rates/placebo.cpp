// SPDX-License-Identifier: Apache-2.0
// A trainer extension for bench/placebos: two knobs that add work to each step, of which less is a true gain.
#include <cstdint>
#include <vector>

#include "plugins/sdk/extension.hpp"

namespace {

using namespace autotuned::sdk;

class Placebo final : public Extension {
 public:
  void apply(const KnobValues& values, torch::nn::Module& /*model*/) override {
    passes_ = values.integer("placebo.passes") + values.integer("placebo.passes_from_start");
  }
  void undo(torch::nn::Module& /*model*/) override { passes_ = 0; }

  void on_batch(Batch& /*batch*/) override {
    for (std::int64_t pass = 0; pass < passes_; ++pass) {
      for (float& value : data_)
        value = value * 0.999F + 0.001F;
      sum_ = sum_ + data_[static_cast<std::size_t>(pass) % data_.size()];
    }
  }

 private:
  std::int64_t passes_ = 0;
  std::vector<float> data_ = std::vector<float>(std::size_t{1} << 11U, 1.0F);
  volatile float sum_ = 0.0F;  // so that the work is not left out
};

}  // namespace

AUTOTUNED_EXTENSION("placebo", "1.0", "Adds work to each step.", Placebo, R"([
  {"name": "placebo.passes", "type": "integer", "minimum": 0, "maximum": 100000000, "default": 0,
   "risk": "exact", "summary": "Passes over 8 KiB before each step."},
  {"name": "placebo.passes_from_start", "type": "integer", "minimum": 0, "maximum": 100000000, "default": 0,
   "risk": "exact", "switch": "restart", "summary": "The same, of a trainer that starts with them."}
])");
