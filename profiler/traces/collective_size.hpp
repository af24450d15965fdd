// SPDX-License-Identifier: Apache-2.0
// How much data a collective operation exchanges, from its event.
#pragma once

#include <cstdint>
#include <optional>

#include "profiler/traces/raw_event.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::traces {

// The bytes that this rank sends: from the number of elements that PyTorch writes for NCCL and similar
// libraries, on the kernel or the call; else, for operations of the host, from the tensors that
// record_shapes=True recorded. Nothing if the event is not of a collective operation, or has neither.
[[nodiscard]] std::optional<std::int64_t> collective_bytes(EventKind kind, const RawEvent& event);

}  // namespace autotuned::traces
