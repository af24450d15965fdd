// SPDX-License-Identifier: Apache-2.0
// LibTorch's group of NCCL, from a library that only ranks on GPUs open. Private to trainer/ranks.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/result.hpp"

namespace autotuned::trainer {

// Makes the group, whose ranks meet in the store when they first exchange something. It never ends the process by
// itself, however long an exchange takes: whoever notices that a rank is lost calls abort(), from any thread.
// ErrorKind::unsupported: this build has no NCCL, or the library does not fit. Throws as LibTorch does.
[[nodiscard]] Result<c10::intrusive_ptr<c10d::Backend>> open_nccl(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks);

// What the library exports under kNcclMaker. The caller owns the group.
using NcclMaker = c10d::Backend*(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks);
inline constexpr const char* kNcclMaker = "autotuned_make_nccl_group";

}  // namespace autotuned::trainer
