// SPDX-License-Identifier: Apache-2.0
// Which other samples of the data are damaged, looked for once one of them ends the job.
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

// Decodes every picture of the data in so many threads, the calling one among them, which alone asks `is_cancelled`.
// Ends early where `most` is over or it is cancelled, or memory runs out. Nothing for data that are not decoded by `first`, the first of
// the recipe's transforms.
[[nodiscard]] DamageFound search_damage(const Dataset& data, const Transform& first, int threads,
                                        std::chrono::nanoseconds most,
                                        const std::function<bool()>& is_cancelled);

// `error` and, in its words, by name which others there are of `found`, up to 20.
[[nodiscard]] Error with_others(Error error, const DamageFound& found);

}  // namespace autotuned::input
