// SPDX-License-Identifier: Apache-2.0
// Calls functions of plugins, and adds the name of the plugin to their exceptions. Private to trainer/: includes
// LibTorch.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/text.hpp"
#include "trainer/common/guarded.hpp"
#include "trainer/common/plugin_error.hpp"

namespace autotuned::trainer {

// Calls a function of a plugin. An exception becomes a PluginError with "`who`: `function`: what`when`" and
// `extensions`. A lack of memory becomes a ShortageError in the same way, except that of a plugin which is no
// extension: it passes unchanged. `when`: such as " in step 5".
template <class Work>
std::invoke_result_t<Work> plugin_call(const std::string& who, const char* function, Work&& work,
                                       const std::vector<std::string>& extensions = {},
                                       const std::string& when = {}) {
  const auto blamed = [&](const std::string& what) {
    return PluginError(who + ": " + function + ": " + first_line(what.c_str()) + when, extensions);
  };
  try {
    return work();
  } catch (const PluginError&) {
    throw;
  } catch (const ShortageError&) {
    throw;
  } catch (const std::exception& error) {
    if (std::optional<Error> shortage = shortage_in(error)) {
      if (extensions.empty()) throw;
      shortage->what = who + ": " + function + ": " + shortage->what;
      shortage->extensions = extensions;
      throw ShortageError(*std::move(shortage));
    }
    throw blamed(error_from(error, who).what);
  } catch (...) {
    throw blamed("an exception of an unknown type");
  }
}

// Calls `work` of the model or of data, from code of an extension: a lack of memory in it is not the extension's.
template <class Work>
std::invoke_result_t<Work> call_from_plugin(Work&& work) {
  try {
    return work();
  } catch (const ShortageError&) {
    throw;
  } catch (const std::exception& error) {
    std::optional<Error> shortage = shortage_in(error);
    if (!shortage) throw;
    throw ShortageError(*std::move(shortage));
  }
}

// The same as plugin_call(), as a Result: an exception of the plugin becomes an error of `kind`; a ShortageError stays
// ErrorKind::out_of_memory.
template <class Work>
Result<std::invoke_result_t<Work>> plugin_result(ErrorKind kind, const std::string& who,
                                                 const char* function, Work&& work,
                                                 const std::vector<std::string>& extensions = {}) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      plugin_call(who, function, std::forward<Work>(work), extensions);
      return {};
    } else {
      return plugin_call(who, function, std::forward<Work>(work), extensions);
    }
  } catch (const ShortageError& error) {
    return tl::unexpected(error.error());
  } catch (const PluginError& error) {
    Error told{kind, std::string(error.what()).substr(who.size() + 2), who, {}};
    told.extensions = error.extensions();
    told.extension_fault = error.fault();
    return tl::unexpected(std::move(told));
  }
}

}  // namespace autotuned::trainer
