// SPDX-License-Identifier: Apache-2.0
// The model of a workload plugin. Private to trainer/: includes LibTorch.
#pragma once

#include <memory>
#include <string>

#include "trainer/models/model.hpp"

namespace autotuned::sdk {
class WorkloadModel;
}

namespace autotuned::trainer {

// Its parameters, buffers and modules are the plugin's own, under their own names. `who` names the plugin
// in errors: ErrorKind::invalid where there is no model, nothing to train, forward throws, or what it
// returns for two samples is no (2, classes). Later forward throws std::runtime_error with that name.
[[nodiscard]] Result<std::shared_ptr<Model>> wrap_plugin_model(
    std::shared_ptr<sdk::WorkloadModel> model, input::SampleShape sample, const std::string& who);

}  // namespace autotuned::trainer
