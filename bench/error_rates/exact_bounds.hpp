// SPDX-License-Identifier: Apache-2.0
// How sure a rate is that was counted.
#pragma once

namespace autotuned::bench {

struct Bounds {
  double low = 0.0;
  double high = 1.0;
};

// Clopper and Pearson's two-sided bounds at 95 % of the rate behind `events` in `trials`.
[[nodiscard]] Bounds exact_bounds(int events, int trials);

}  // namespace autotuned::bench
