// SPDX-License-Identifier: Apache-2.0
// The part of the trainer that needs NCCL's headers, as a library of its own: they are not where no GPU is.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <chrono>
#include <cstdlib>

#include "trainer/ranks/rank_group_nccl.hpp"

namespace autotuned::trainer {
namespace {

// Ranks wait for one another while rank 0 evaluates, and all of them are stopped while another trainer is timed.
constexpr std::chrono::milliseconds kAnyLength = std::chrono::hours(24 * 365);

// LibTorch's own answer to a lost rank or to a long wait is to end the process, minutes later and with a text about
// neither. LostRankWatch sees at once who is lost.
void let_watchdog_watch_only() {
  for (
      const char* name :
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING",
       "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_RETHROW_CUDA_ERRORS",
       // Its watchdog pauses four times as long after an error, and the destructor of the group waits for it.
       "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"}) {
    ::setenv(name, "0", /*overwrite=*/1);
  }
}

}  // namespace
}  // namespace autotuned::trainer

extern "C" {
__attribute__((visibility("default"))) autotuned::trainer::NcclMaker autotuned_make_nccl_group;

c10d::Backend* autotuned_make_nccl_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                         int ranks) {
  autotuned::trainer::let_watchdog_watch_only();
  // No rank of this machine is reached from outside. Where data of GPUs must cross a network card, the user names it.
  ::setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = autotuned::trainer::kAnyLength;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, ranks, std::move(options))
      .release();
}
}
