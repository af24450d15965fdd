// SPDX-License-Identifier: Apache-2.0
// Libraries of this installation that only some trainers open.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.hpp"

namespace autotuned::trainer {

// Where the library of this name is: beside the program, in the build folder and when installed.
[[nodiscard]] std::filesystem::path installed_library(const std::string& name);

// Opens the library, for the life of the process, and returns the address of a function in it. ErrorKind::unsupported:
// the library is missing or does not fit.
[[nodiscard]] Result<void*> function_of(const std::filesystem::path& library, const char* function);

}  // namespace autotuned::trainer
