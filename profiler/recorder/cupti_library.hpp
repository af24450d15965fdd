// SPDX-License-Identifier: Apache-2.0
// NVIDIA's CUPTI, opened at run time: nothing links it. This header needs no CUPTI types.
#pragma once

#include "base/result.hpp"

namespace autotuned::profiler {

class CuptiApi;

inline constexpr const char* kCuptiLibrary = "libcupti.so.13";

// Opens CUPTI. It stays open and valid until the process ends. In a process with LibTorch it is LibTorch's
// own copy. ErrorKind::unsupported if the library is missing, lacks a function, or is not CUPTI 13.
[[nodiscard]] Result<CuptiApi*> open_cupti(const char* library = kCuptiLibrary);

}  // namespace autotuned::profiler
