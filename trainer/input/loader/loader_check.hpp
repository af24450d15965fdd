// SPDX-License-Identifier: Apache-2.0
// Checks the settings of a loader, and makes the buffers that they need. Part of loader.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/loader/loader.hpp"

namespace autotuned::input {

// The errors of Loader::reconfigure() that the settings alone cause.
[[nodiscard]] Result<void> check(const LoaderSettings& settings, std::int64_t dataset_size,
                                 const Pipeline& pipeline);

// A buffer for each slot, if the pipeline has stages over whole batches.
[[nodiscard]] Result<std::vector<std::vector<float>>> room_to_assemble(
    const LoaderSettings& settings, const Pipeline& pipeline);

}  // namespace autotuned::input
