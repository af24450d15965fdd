// SPDX-License-Identifier: Apache-2.0
// Calls functions of plugins, and adds the name of the plugin to their exceptions. Private to trainer/: includes
// LibTorch.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "base/result.hpp"
#include "base/text.hpp"
#include "trainer/common/guarded.hpp"

namespace autotuned::trainer {

// An exception of a plugin; the text names the plugin and the error.
class PluginError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Calls a function of a plugin. An exception becomes a PluginError with "`who`: `function`: what", except for lack of
// memory, which passes unchanged.
template <class Work>
std::invoke_result_t<Work> plugin_call(const std::string& who, const char* function, Work&& work) {
  const auto blamed = [&](const std::string& what) {
    return PluginError(who + ": " + function + ": " + first_line(what.c_str()));
  };
  try {
    return work();
  } catch (const PluginError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const Error told = error_from(error, who);
    if (told.kind == ErrorKind::out_of_memory) throw;
    throw blamed(told.what);
  } catch (...) {
    throw blamed("an exception of an unknown type");
  }
}

// The same as a Result: an exception of the plugin becomes an error of `kind`.
template <class Work>
Result<std::invoke_result_t<Work>> plugin_result(ErrorKind kind, const std::string& who,
                                                 const char* function, Work&& work) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      plugin_call(who, function, std::forward<Work>(work));
      return {};
    } else {
      return plugin_call(who, function, std::forward<Work>(work));
    }
  } catch (const PluginError& error) {
    return fail(kind, std::string(error.what()).substr(who.size() + 2), who);
  }
}

}  // namespace autotuned::trainer
