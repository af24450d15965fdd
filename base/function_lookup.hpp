// SPDX-License-Identifier: Apache-2.0
// Looks up functions of a library that was opened at run time.
#pragma once

#include <dlfcn.h>

#include <string>

namespace autotuned {

// Finds functions by name, and keeps the first name that is missing.
class FunctionLookup {
 public:
  // `library`: a handle of dlopen(), which must stay open.
  explicit FunctionLookup(void* library) : library_(library) {}

  // Sets `function` to the function of that name, which must have this type; to null if the library lacks it.
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
