// SPDX-License-Identifier: Apache-2.0
// A variable of the environment while this lives; afterwards it is as it was before.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>

namespace autotuned {

class EnvironmentVariable {
 public:
  // `value` null: not set.
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    if (const char* const before = ::getenv(name)) before_ = before;
    set(value);
  }
  ~EnvironmentVariable() { set(before_ ? before_->c_str() : nullptr); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  void set(const char* value) {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace autotuned
