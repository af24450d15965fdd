// SPDX-License-Identifier: Apache-2.0
// Which requests a trainer refuses after a trace of a GPU. CUPTI stays attached to a process that it has recorded and
// makes every launch slower, so measurements in it would be wrong.
#pragma once

#include <string_view>

#include "base/result.hpp"

namespace autotuned::trainer {

// ErrorKind::unsupported for `run` and `profile` after a trace of a GPU, because their answers are rates and durations.
// `steps` is permitted, because checks compare only its results, and `train`, because no decision depends on its rate.
[[nodiscard]] inline Result<void> check_may_be_timed(std::string_view request,
                                                     bool has_traced_gpu) {
  if (!has_traced_gpu || (request != "run" && request != "profile")) return {};
  return fail(ErrorKind::unsupported,
              "this trainer has recorded a GPU, which slows it down from then on",
              std::string(request), "start another trainer for what is timed");
}

}  // namespace autotuned::trainer
