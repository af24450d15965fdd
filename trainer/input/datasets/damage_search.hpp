// SPDX-License-Identifier: Apache-2.0
// Looks for other damaged samples after one has ended the job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

struct DamageFound {
  std::vector<Error> errors;   // in the order of the data, each with its file
  std::int64_t looked_at = 0;  // of the stored samples
};

// Decodes every picture of the data in this number of threads, with the calling one, which alone asks `is_cancelled`.
// Ends early after `most`, if it is cancelled, or if memory runs out. Does nothing if `first`, the recipe's first
// transform, does not decode.
[[nodiscard]] DamageFound search_damage(const Dataset& data, const Transform& first, int threads,
                                        std::chrono::nanoseconds most,
                                        const std::function<bool()>& is_cancelled);

// `error` with the names of up to 20 other files of `found` in its text, and what to do about all of them.
[[nodiscard]] Error with_others(Error error, const DamageFound& found);

}  // namespace autotuned::input
