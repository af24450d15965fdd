// SPDX-License-Identifier: Apache-2.0
// Which device a job is on: as a recipe and the machine let expect, and as a trainer tells.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/machine_state.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// UUIDs of the GPUs that CUDA shows where CUDA_VISIBLE_DEVICES is `visible` (null: not set), in its order: numbers are
// places in `gpus`, which NVML lists as nvidia-smi does. Parts of GPUs (MIG) stand for themselves. What is behind a
// name that fits none is not shown, as in CUDA.
[[nodiscard]] std::vector<std::string> visible_gpus(const std::vector<Gpu>& gpus,
                                                    const char* visible);

// The device that a recipe trains on: the UUID of a GPU, or "cpu". Runs on one device take turns. It is what is expected
// in the environment of this process; a trainer knows.
[[nodiscard]] std::string device_of(const recipes::Recipe& recipe, const Machine& machine);

// The same by a trainer's answer to `load`. `expected` where it trains on a GPU that it does not name.
[[nodiscard]] std::string device_told(const Json& facts, const Machine& machine,
                                      const std::string& expected);

// Where the job is not on the device that the machine would let expect, what it is and why. `hello` and `facts` are a
// trainer's; `has_gpu` as of is_gpu_there().
[[nodiscard]] std::vector<MachineFinding> device_findings(const recipes::Recipe& recipe,
                                                          const Json& hello, const Json& facts,
                                                          const Machine& machine, bool has_gpu);

// Whether this machine has an NVIDIA GPU, with a driver that works or without. `root` is "" but in tests.
[[nodiscard]] bool is_gpu_there(const Machine& machine, const std::string& root = "");

}  // namespace autotuned::daemon
