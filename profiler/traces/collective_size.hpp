// SPDX-License-Identifier: Apache-2.0
// How much a collective operation exchanges, by what its event says.
#pragma once

#include <cstdint>
#include <optional>

#include "profiler/traces/raw_event.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::traces {

// In bytes, what this rank gives. From the number of elements that PyTorch writes for NCCL and its like, on the kernel
// or the call; else, for operations of the host, from the tensors that were recorded with record_shapes=True. Nothing
// where the event is of no collective operation, or does not say.
[[nodiscard]] std::optional<std::int64_t> collective_bytes(EventKind kind, const RawEvent& event);

}  // namespace autotuned::traces
