// SPDX-License-Identifier: Apache-2.0
// The modules that precision.keep_float32 names: their forward runs in 32 bits while the rest runs in 16 under
// autocast. Private to trainer/.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::trainer {

class Model;

struct KeptModules {
  std::vector<const void*> modules;  // their addresses, sorted
  bool has_loss = false;

  friend bool operator==(const KeptModules&, const KeptModules&) = default;
};

// `value` is in the knob's domain. ErrorKind::invalid: the model has no such module. ErrorKind::unsupported: the model
// calls its modules itself (Model::why_opaque()), so that single modules cannot be kept in 32 bits; the loss still can.
[[nodiscard]] Result<KeptModules> kept_modules(const Model& model, const std::string& value);

}  // namespace autotuned::trainer
