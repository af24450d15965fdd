// SPDX-License-Identifier: Apache-2.0
// For the tests of a plugin: the library as it was built, asked as the program asks it.
#pragma once

#include <dlfcn.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "plugins/sdk/autotuned_plugin.h"

namespace autotuned::sdk {

// A loaded policy plugin. The library stays loaded until the process ends, as in the program. The constructor throws
// std::runtime_error if the file has no plugin, or one of another version of this surface.
class BuiltPlugin {
 public:
  // `file` must contain a slash: dlopen() looks for other names in the system's folders.
  explicit BuiltPlugin(const std::string& file) {
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    const void* const alias = ::dlsym(library, "autotuned_plugin_v1");
    if (alias == nullptr) throw std::runtime_error(file + " exports no autotuned_plugin_v1");
    descriptor_ = *static_cast<const autotuned_plugin* const*>(alias);
    if (descriptor_->magic != AUTOTUNED_PLUGIN_MAGIC) {
      throw std::runtime_error(file + " exports no descriptor of this version");
    }
  }

  [[nodiscard]] std::string name() const { return descriptor_->name; }

  // The answer to a situation (README.md). Throws when there is none, or none that is JSON.
  [[nodiscard]] nlohmann::json ask(const nlohmann::json& situation) const {
    const char* const text = descriptor_->propose(situation.dump().c_str());
    if (text == nullptr) throw std::runtime_error(name() + " answered NULL");
    nlohmann::json answer = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    descriptor_->release(text);
    if (answer.is_discarded()) throw std::runtime_error(name() + " answered no JSON");
    return answer;
  }

 private:
  const autotuned_plugin* descriptor_;
};

}  // namespace autotuned::sdk
