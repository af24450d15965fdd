// SPDX-License-Identifier: Apache-2.0
// Looks up functions of a library that was opened at run time.
#pragma once

#include <dlfcn.h>

#include <string>

namespace autotuned {

class FunctionLookup {
 public:
  // `library` is a handle of dlopen() and must stay open.
  explicit FunctionLookup(void* library) : library_(library) {}

  // Sets `function` to the library's function of that name, which must have this type; null if there is none.
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (function == nullptr && first_missing_.empty()) first_missing_ = name;
  }

  // The first name that find() did not find; empty if it found all.
  [[nodiscard]] const std::string& first_missing() const { return first_missing_; }

 private:
  void* library_;
  std::string first_missing_;
};

}  // namespace autotuned
