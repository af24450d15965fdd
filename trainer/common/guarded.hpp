// SPDX-License-Identifier: Apache-2.0
// Where LibTorch's exceptions end. Private to trainer/: includes LibTorch.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.hpp"

namespace autotuned::trainer {

[[nodiscard]] inline Error error_from(const c10::Error& error, const std::string& where) {
  const std::string message = error.what_without_backtrace();
  const auto says = [&message](std::string_view text) {
    return message.find(text) != std::string::npos;
  };
  std::string what = message.substr(0, message.find('\n'));
  // Of a GPU that one process alone may use at a time, and that another one has.
  if (says("busy or unavailable")) {
    return Error{ErrorKind::busy, std::move(what), where,
                 "end what else uses the GPU, or let it be shared: nvidia-smi -c DEFAULT"};
  }
  // cuBLAS and cuDNN find no room for their workspaces where LibTorch has taken the rest.
  const bool is_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                         says("can't allocate memory") || says("out of memory") ||
                         says("STATUS_ALLOC_FAILED") || says("unable to find an engine");
  return Error{is_memory ? ErrorKind::out_of_memory : ErrorKind::internal, std::move(what), where,
               ""};
}

// What the device, the model or both together cannot do.
class UnsupportedError : public std::runtime_error {
 public:
  UnsupportedError(const std::string& what, std::string remedy)
      : std::runtime_error(what), remedy_(std::move(remedy)) {}

  [[nodiscard]] const std::string& remedy() const { return remedy_; }

 private:
  std::string remedy_;
};

// Calls `work`, which returns a Result, and makes an Error of whatever it throws.
template <class Work>
[[nodiscard]] std::invoke_result_t<Work> guarded(const std::string& where, Work&& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    return tl::unexpected(error_from(error, where));
  } catch (const UnsupportedError& error) {
    return fail(ErrorKind::unsupported, error.what(), where, error.remedy());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory left", where);
  } catch (const std::exception& error) {
    const std::string message = error.what();
    return fail(ErrorKind::internal, message.substr(0, message.find('\n')), where);
  }
}

}  // namespace autotuned::trainer
