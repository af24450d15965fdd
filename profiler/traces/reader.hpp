// SPDX-License-Identifier: Apache-2.0
// Reads the traces that torch.profiler and Kineto write: *.pt.trace.json, plain or gzipped.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::traces {

struct ReadOptions {
  // Calls of Python functions and stacks of operators too: often the most of a trace, 32 bytes for each call.
  bool with_stacks = false;
};

// One pass over the file; a million events take about a second and 50 MB. Never throws.
//
// A broken event, a file that ends too early, numbers that make no sense: all that is good is read, and
// Trace::damage names the rest. An error only when nothing can be read: `corrupt` for what is no trace or
// holds no event, besides those of ByteStream::open().
[[nodiscard]] Result<Trace> read_trace(const std::filesystem::path& file, ReadOptions options = {});

}  // namespace autotuned::traces
