// SPDX-License-Identifier: Apache-2.0
// What a trainer refuses to time. CUPTI stays attached to a process in which it has recorded a GPU, and
// every launch there is slower for it, so a figure from there would be wrong.
#pragma once

#include <string_view>

#include "base/result.hpp"

namespace autotuned::trainer {

// An error of kind `unsupported` for requests whose answer is a rate or a duration, after a trace of a GPU.
// Not so `steps`, which checks compare by their results, and `train`, which nobody decides by.
[[nodiscard]] inline Result<void> check_may_be_timed(std::string_view request,
                                                     bool has_traced_gpu) {
  if (!has_traced_gpu || (request != "run" && request != "profile")) return {};
  return fail(ErrorKind::unsupported,
              "this trainer has recorded a GPU, which slows it down from then on",
              std::string(request), "start another trainer for what is timed");
}

}  // namespace autotuned::trainer
