// SPDX-License-Identifier: Apache-2.0
// For the tests of an extension or a workload: the library as it was built, loaded as the trainer loads it.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "plugins/sdk/autotuned_trainer.h"

namespace autotuned::sdk {

// Loads a built library and returns its surface. `Surface` is detail::ExtensionSurface or detail::WorkloadSurface, as
// the library is one or the other. The library stays loaded until the process ends. Throws std::runtime_error if the
// file has no surface. `file` must contain a slash: dlopen() looks for other names in the system's folders.
template <class Surface>
[[nodiscard]] const Surface& built(const std::string& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const void* const alias = ::dlsym(library, "autotuned_trainer_v1");
  if (alias == nullptr) throw std::runtime_error(file + " exports no autotuned_trainer_v1");
  const auto* const descriptor = *static_cast<const autotuned_trainer* const*>(alias);
  if (descriptor->magic != AUTOTUNED_TRAINER_MAGIC) {
    throw std::runtime_error(file + " exports no descriptor of this version");
  }
  return *static_cast<const Surface*>(descriptor->surface);
}

}  // namespace autotuned::sdk
