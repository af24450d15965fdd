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

// Wraps the model of a plugin as a Model with the same parameters, buffers and modules, under their own names. `who`
// names the plugin in errors. ErrorKind::invalid: there is no model or nothing to train, forward throws, or its result
// for two samples does not have the shape (2, classes). Exceptions of later forwards become std::runtime_error with
// that name.
[[nodiscard]] Result<std::shared_ptr<Model>> wrap_plugin_model(
    std::shared_ptr<sdk::WorkloadModel> model, input::SampleShape sample, const std::string& who);

}  // namespace autotuned::trainer
