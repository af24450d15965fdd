// SPDX-License-Identifier: Apache-2.0
// The hello of a trainer, its first frame, which describes it (docs/trainer-protocol.md).
#pragma once

#include "base/json.hpp"
#include "trainer/common/device.hpp"

namespace autotuned::trainer {

[[nodiscard]] Json hello_of(const Devices& devices);

}  // namespace autotuned::trainer
