// SPDX-License-Identifier: Apache-2.0
// CUDA's graphs, from a library that only trainers on a GPU open. Private to trainer/: includes LibTorch.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "trainer/step/graph_step.hpp"

namespace autotuned::trainer {

// Makes a recorder for a CUDA device, whose libraries are open (device.hpp). ErrorKind::unsupported: another device, or
// the library is missing or does not fit.
[[nodiscard]] Result<std::unique_ptr<GraphRecorder>> open_cuda_recorder(at::Device device);

}  // namespace autotuned::trainer
