// SPDX-License-Identifier: Apache-2.0
// The memory that a job needs at least, known before anything of it is made. A recipe that cannot fit into the machine is refused at
// once, instead of after a minute of filling its memory.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "recipes/recipe.hpp"
#include "trainer/input/common/sample.hpp"

namespace autotuned::trainer {

// The memory that all processes of a job may use together, in bytes; 0: not known.
struct MemoryRoom {
  std::int64_t host_bytes = 0;    // physical memory or the cgroup's limit
  std::int64_t device_bytes = 0;  // of a GPU that trains
  bool trains_on_cpu = false;
};

// Returns how many parameters the large layers of the model have: a lower bound. 0 for a model whose size does not depend on its
// recipe by much, or is not known before it is made. `model`: with context and vocabulary, if it takes tokens.
[[nodiscard]] double least_parameters(const recipes::Component& model, input::SampleShape sample);

// ErrorKind::invalid, at `data`: the order of so many samples does not fit.
[[nodiscard]] Result<void> check_memory_of_samples(std::int64_t samples, int ranks,
                                                   const MemoryRoom& room);

// ErrorKind::invalid, at `model`: its parameters, with gradients and the state of the optimizer where it is trained, do not fit.
[[nodiscard]] Result<void> check_memory_of_model(const recipes::Recipe& recipe,
                                                 input::SampleShape sample, const MemoryRoom& room);

}  // namespace autotuned::trainer
