// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/installation_paths.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "base/user_folders.hpp"

namespace autotuned::daemon {

namespace {

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

Result<std::filesystem::path> private_folder(const std::filesystem::path& folder, const char* name,
                                             const char* remedy) {
  if (auto made = make_private_folder(folder, name, remedy); !made) {
    return tl::unexpected(made.error());
  }
  return folder;
}

}  // namespace

InstallationPaths find_installation_paths() {
  InstallationPaths paths;
  std::error_code ignored;
  paths.program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  // A daemon goes on with the version that took the place of its own.
  constexpr std::string_view kReplaced = " (deleted)";
  if (const std::string name = paths.program.string(); name.ends_with(kReplaced)) {
    paths.program = name.substr(0, name.size() - kReplaced.size());
  }
  const std::filesystem::path folder = paths.program.parent_path();
  const std::string trainer = environment_text("AUTOTUNED_TRAINER");
  paths.trainer = trainer.empty() ? folder / "autotuned-trainer" : std::filesystem::path{trainer};
  paths.built_in_plugins = folder.parent_path() / "lib" / "autotuned" / "plugins";
  paths.templates = folder.parent_path() / "share" / "autotuned" / "templates";
  const std::string startup = environment_text("AUTOTUNED_STARTUP");
  paths.startup = startup.empty()
                      ? folder.parent_path() / "share/autotuned/python/autotuned/startup"
                      : std::filesystem::path{startup};
  return paths;
}

Result<std::filesystem::path> current_folder() {
  std::error_code failed;
  std::filesystem::path folder = std::filesystem::current_path(failed);
  if (!failed) return folder;
  Error error = system_error(failed.value(), "cannot find the current folder");
  error.remedy = "it may have been deleted: give the command in another one";
  return tl::unexpected(std::move(error));
}

Result<std::filesystem::path> runtime_folder() {
  std::string runtime = environment_text("XDG_RUNTIME_DIR");
  // A shell of cron or ssh may lack the variable, and must still meet the same daemon.
  if (const std::string usual = "/run/user/" + std::to_string(getuid());
      runtime.empty() && access(usual.c_str(), W_OK | X_OK) == 0) {
    runtime = usual;
  }
  if (runtime.empty()) return lock_folder();
  return private_folder(std::filesystem::path{runtime} / "autotuned", "the folder of the socket",
                        "remove it, or set XDG_RUNTIME_DIR to a folder of yours");
}

Result<std::filesystem::path> lock_folder() {
  const std::string chosen = environment_text("AUTOTUNED_LOCKS");
  if (!chosen.empty() && chosen.front() != '/') {
    return fail(ErrorKind::invalid, "AUTOTUNED_LOCKS must be an absolute path", chosen);
  }
  return private_folder(chosen.empty() ? "/tmp/autotuned-" + std::to_string(getuid()) : chosen,
                        "the folder of locks",
                        "remove it, or set AUTOTUNED_LOCKS to a folder of yours for all your runs");
}

std::filesystem::path measurement_lock_file() {
  const auto folder = lock_folder();
  return folder ? *folder / "measurement.lock" : std::filesystem::path();
}

}  // namespace autotuned::daemon
