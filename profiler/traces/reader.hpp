// SPDX-License-Identifier: Apache-2.0
// Reads the traces that torch.profiler and Kineto write: *.pt.trace.json, plain or gzipped.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::traces {

struct ReadOptions {
  // Also read calls of Python functions and stacks of operators, which are often most of a trace; 32 bytes
  // for each call.
  bool with_stacks = false;
};

// Reads a trace in one pass over the file. A million events take about a second and 50 MB. Never throws.
//
// Broken events, a file that ends too early and impossible numbers are not errors: everything valid is read, and Trace::damage describes
// the rest. ErrorKind::corrupt only if the file is not a trace or contains no
// event; other errors are those of ByteStream::open().
[[nodiscard]] Result<Trace> read_trace(const std::filesystem::path& file, ReadOptions options = {});

// Whether a TraceWriter has written the file, to its end. Reads all of it.
[[nodiscard]] bool is_own_trace(const std::filesystem::path& file);

}  // namespace autotuned::traces
