// SPDX-License-Identifier: Apache-2.0
// Turns LibTorch's exceptions into errors. Private to trainer/: includes LibTorch.
#pragma once

#include <c10/util/Exception.h>

#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.hpp"
#include "base/text.hpp"
#include "trainer/common/memory_shortage.hpp"
#include "trainer/common/plugin_error.hpp"

namespace autotuned::trainer {

// Whether TorchScript's interpreter threw this. It throws std::runtime_error for every exception in it: the text begins
// with the place in the model and ends with the cause.
[[nodiscard]] inline bool is_scripted(const std::exception& error) {
  return std::string_view(error.what())
      .starts_with("The following operation failed in the TorchScript interpreter.");
}

[[nodiscard]] inline bool is_libtorchs(const std::exception& error) {
  return dynamic_cast<const c10::Error*>(&error) != nullptr || is_scripted(error);
}

// Converts an exception. ErrorKind::internal if it is neither LibTorch's nor a ShortageError; that of an extension has
// Error::extensions and Error::extension_fault.
[[nodiscard]] inline Error error_from(const std::exception& error, const std::string& where) {
  if (const auto* const shortage = dynamic_cast<const ShortageError*>(&error)) {
    Error told = shortage->error();
    told.where = where;
    return told;
  }
  const auto* const plain = dynamic_cast<const c10::Error*>(&error);
  std::string message = plain != nullptr ? plain->what_without_backtrace() : error.what();
  if (is_scripted(error)) {
    constexpr std::string_view kCause = "\nRuntimeError: ";
    const std::size_t cause = message.rfind(kCause);
    if (cause != std::string::npos) message.erase(0, cause + kCause.size());
  }
  std::string what = first_line(message.c_str());
  if (const auto shortage = memory_shortage_from(what); shortage && is_libtorchs(error)) {
    return to_error(*shortage, where);
  }
  if (!is_libtorchs(error)) {
    Error told{ErrorKind::internal, std::move(what), where, ""};
    const auto* const of_plugin = dynamic_cast<const PluginError*>(&error);
    if (of_plugin != nullptr) {
      told.extensions = of_plugin->extensions();
      told.extension_fault = of_plugin->fault();
    }
    return told;
  }
  const auto says = [&message](std::string_view text) {
    return message.find(text) != std::string::npos;
  };
  // A GPU in exclusive mode that another process uses.
  if (says("busy or unavailable")) {
    return Error{ErrorKind::busy, std::move(what), where,
                 "end what else uses the GPU, or let it be shared: nvidia-smi -c DEFAULT"};
  }
  // cuBLAS and cuDNN have no memory for their workspaces if LibTorch has taken the rest.
  const bool is_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                         says("can't allocate memory") || says("out of memory") ||
                         says("STATUS_ALLOC_FAILED") || says("unable to find an engine");
  return Error{is_memory ? ErrorKind::out_of_memory : ErrorKind::internal, std::move(what), where,
               ""};
}

// Thrown for a request that the device, the model or both together do not support.
class UnsupportedError : public std::runtime_error {
 public:
  UnsupportedError(const std::string& what, std::string remedy)
      : std::runtime_error(what), remedy_(std::move(remedy)) {}

  [[nodiscard]] const std::string& remedy() const { return remedy_; }

 private:
  std::string remedy_;
};

// The error if `error`, which is no ShortageError, is a lack of memory.
[[nodiscard]] inline std::optional<Error> shortage_in(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return Error{ErrorKind::out_of_memory, "no memory left", "", ""};
  }
  Error told = error_from(error, "");
  if (told.kind != ErrorKind::out_of_memory) return std::nullopt;
  return told;
}

// Calls `work`, which returns a Result, and makes an Error of whatever it throws.
template <class Work>
[[nodiscard]] std::invoke_result_t<Work> guarded(const std::string& where, Work&& work) {
  try {
    return work();
  } catch (const UnsupportedError& error) {
    return fail(ErrorKind::unsupported, error.what(), where, error.remedy());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory left", where);
  } catch (const std::exception& error) {
    return tl::unexpected(error_from(error, where));
  }
}

}  // namespace autotuned::trainer
