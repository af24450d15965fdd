// SPDX-License-Identifier: Apache-2.0
// Libraries that only the trainer loads: extensions and workloads. Their metadata is read from a section of the file,
// so that a library can be refused, and its knobs are known, before any of its code runs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::plugins {

struct TrainerLibrary {
  enum class Kind { extension, workload };
  std::string name;  // of the file: libNAME_trainer.so
  Kind kind = Kind::extension;
  std::string version;
  std::string summary;
  std::vector<std::string> needs;    // of the machine (needs.hpp)
  std::vector<recipes::Knob> knobs;  // of an extension; their names start with NAME and a dot
  std::filesystem::path path;
};

[[nodiscard]] std::string_view to_string(TrainerLibrary::Kind kind);

// ErrorKind::unsupported: made for another version of the surface, another LibTorch, compiler or C++
// library than this program; the message names both. ErrorKind::invalid or corrupt: no such library, or
// its metadata are wrong. REQUIRES: the file is trusted (trust.hpp).
[[nodiscard]] Result<TrainerLibrary> examine_trainer_library(const std::filesystem::path& file);

// Loads the library, which runs its code: call it in the trainer only. Returns the surface of its kind
// (sdk/extension.hpp, sdk/workload.hpp). Libraries are never unloaded.
[[nodiscard]] Result<const void*> load_trainer_library(const TrainerLibrary& library);

}  // namespace autotuned::plugins
