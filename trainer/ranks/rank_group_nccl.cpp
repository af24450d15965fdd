// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/rank_group_nccl.hpp"

#include <filesystem>
#include <string>
#include <system_error>

#include "trainer/common/installed_library.hpp"

namespace autotuned::trainer {

Result<c10::intrusive_ptr<c10d::Backend>> open_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int ranks) {
  const std::filesystem::path file = installed_library("libautotuned_nccl.so");
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    return fail(ErrorKind::unsupported,
                "this build has no NCCL, over which ranks on GPUs exchange gradients",
                file.string(),
                "run scripts/setup --cuda and build again, or write device: cpu; "
                "docs/distributed.md says more");
  }
  const auto found = function_of(file, kNcclMaker);
  if (!found) return tl::unexpected(found.error());
  auto* const make = reinterpret_cast<NcclMaker*>(*found);
  return c10::intrusive_ptr<c10d::Backend>::reclaim(make(store, rank, ranks));
}

}  // namespace autotuned::trainer
