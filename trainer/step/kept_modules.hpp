// SPDX-License-Identifier: Apache-2.0
// What precision.keep_float32 names: modules whose forward runs in 32 bit while autocast has the rest in 16.
// Private to trainer/.
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

// `value` is in the knob's domain. ErrorKind::invalid: the model has no such module. ErrorKind::unsupported:
// the model calls its modules itself (Model::why_opaque()), so that nothing can be done around one of them;
// the loss can be kept nevertheless.
[[nodiscard]] Result<KeptModules> kept_modules(const Model& model, const std::string& value);

}  // namespace autotuned::trainer
