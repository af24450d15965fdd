// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/cuda_graph.hpp"

#include "trainer/common/installed_library.hpp"

namespace autotuned::trainer {

Result<std::unique_ptr<GraphRecorder>> open_cuda_recorder(at::Device device) {
  if (!device.is_cuda()) {
    return fail(ErrorKind::unsupported, "the job runs on " + device.str() + ", which has no graphs",
                "cuda.graph", "leave it off");
  }
  const auto found =
      function_of(installed_library("libautotuned_cuda.so"), "autotuned_make_cuda_recorder");
  if (!found) return tl::unexpected(found.error());
  using Maker = GraphRecorder*(int);
  auto* const make = reinterpret_cast<Maker*>(*found);
  return std::unique_ptr<GraphRecorder>(make(device.index()));
}

}  // namespace autotuned::trainer
