// SPDX-License-Identifier: Apache-2.0
// NVIDIA's CUPTI, opened when it is asked for: nothing links it. Without CUPTI's types.
#pragma once

#include "base/result.hpp"

namespace autotuned::profiler {

class CuptiApi;

inline constexpr const char* kCuptiLibrary = "libcupti.so.13";

// Stays open, and valid, until the process ends. In a process with LibTorch it is LibTorch's own copy.
// ErrorKind::unsupported where the library is missing, lacks a function, or is no CUPTI 13.
[[nodiscard]] Result<CuptiApi*> open_cupti(const char* library = kCuptiLibrary);

}  // namespace autotuned::profiler
