// SPDX-License-Identifier: Apache-2.0
// What a trainer says of itself before it is asked anything (docs/trainer-protocol.md).
#pragma once

#include "base/json.hpp"
#include "trainer/common/device.hpp"

namespace autotuned::trainer {

[[nodiscard]] Json hello_of(const Devices& devices);

}  // namespace autotuned::trainer
