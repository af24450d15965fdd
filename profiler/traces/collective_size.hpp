// SPDX-License-Identifier: Apache-2.0
// The amount of data that a collective operation exchanges, from its event.
#pragma once

#include <cstdint>
#include <optional>

#include "profiler/traces/raw_event.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::traces {

// Returns the bytes that this rank sends: from the number of elements that PyTorch writes for NCCL and similar libraries, on the kernel or
// the call; else, for operations of the host, from the tensors that record_shapes=True recorded. Returns nothing if the event does not
// belong to a collective operation, or has neither.
[[nodiscard]] std::optional<std::int64_t> collective_bytes(EventKind kind, const RawEvent& event);

}  // namespace autotuned::traces
