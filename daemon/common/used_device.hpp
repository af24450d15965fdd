// SPDX-License-Identifier: Apache-2.0
// Which device a job runs on: the expected one, from recipe and machine, and the actual one, from a trainer's answers.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/machine_state.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// The UUIDs of the GPUs that CUDA shows if CUDA_VISIBLE_DEVICES is `visible` (null: not set), in that order. Numbers
// are indices into `gpus`, which NVML lists as nvidia-smi does. Parts of GPUs (MIG) are listed by their own names. As
// in CUDA, a name that fits no GPU ends the list.
[[nodiscard]] std::vector<std::string> visible_gpus(const std::vector<Gpu>& gpus,
                                                    const char* visible);

// The device that a recipe trains on: the UUID of a GPU, or "cpu". Runs on one device take turns. This is an
// expectation from the environment of this process; the trainer tells the actual device (device_told).
[[nodiscard]] std::string device_of(const recipes::Recipe& recipe, const Machine& machine);

// The same of each rank: with several ranks on GPUs each has one of its own.
[[nodiscard]] std::vector<std::string> devices_of(const recipes::Recipe& recipe,
                                                  const Machine& machine);

// The device by a trainer's answer to `load`. Returns `expected` if the trainer is on a GPU but does not name it.
[[nodiscard]] std::string device_told(const Json& facts, const Machine& machine,
                                      const std::string& expected);

// The same of each rank. `expected` is devices_of().
[[nodiscard]] std::vector<std::string> devices_told(const Json& facts, const Machine& machine,
                                                    const std::vector<std::string>& expected);

// If the job is not on the device that one would expect on this machine: the actual device and the reason. `hello` and
// `facts` are a trainer's answers; `has_gpu` is is_gpu_there().
[[nodiscard]] std::vector<MachineFinding> device_findings(const recipes::Recipe& recipe,
                                                          const Json& hello, const Json& facts,
                                                          const Machine& machine, bool has_gpu);

// Whether this machine has an NVIDIA GPU, whether or not its driver works. `root` is "" except in tests.
[[nodiscard]] bool is_gpu_there(const Machine& machine, const std::string& root = "");

}  // namespace autotuned::daemon
