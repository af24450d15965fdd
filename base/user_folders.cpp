// SPDX-License-Identifier: Apache-2.0
#include "base/user_folders.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace autotuned {
namespace {

namespace fs = std::filesystem;

// Makes the entries of a folder durable, so that a power cut does not take a new one away.
Result<void> sync_entries(const fs::path& folder) {
  const fs::path here = folder.empty() ? fs::path(".") : folder;
  const Descriptor descriptor(::open(here.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open() || ::fsync(descriptor.get()) != 0) {
    // Some file systems cannot sync a folder; a folder may be writable and not readable.
    if (errno == EINVAL || errno == EACCES) return {};
    return tl::unexpected(system_error(errno, "cannot sync the folder", here.string()));
  }
  return {};
}

}  // namespace

fs::path home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  const passwd* user = ::getpwuid(::geteuid());
  return user != nullptr && user->pw_dir != nullptr ? fs::path(user->pw_dir) : fs::path(".");
}

fs::path state_folder() {
  // The XDG specification says that a relative path is to be ignored.
  const char* state = std::getenv("XDG_STATE_HOME");
  const fs::path folder =
      state != nullptr && *state == '/' ? fs::path(state) : home_folder() / ".local" / "state";
  return folder / "autotuned";
}

Result<void> make_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (fs::path path = folder; !fs::exists(path, ignored) && path.has_relative_path();
       path = path.parent_path()) {
    missing.push_back(path);
  }
  while (!missing.empty()) {
    const fs::path path = missing.back();
    missing.pop_back();
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return tl::unexpected(system_error(errno, "cannot make the folder", path.string()));
    }
    if (auto synced = sync_entries(path.parent_path()); !synced) return synced;
  }
  return {};
}

Result<void> make_private_folder(const fs::path& folder, const char* name, const char* remedy) {
  if (::mkdir(folder.c_str(), 0700) == 0) {
    if (auto synced = sync_entries(folder.parent_path()); !synced) return synced;
  } else if (errno != EEXIST) {
    return tl::unexpected(system_error(errno, std::string("cannot make ") + name, folder.string()));
  }
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) {
    return tl::unexpected(
        system_error(errno, std::string("cannot look at ") + name, folder.string()));
  }
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::getuid() || (found.st_mode & 0022U) != 0) {
    return fail(ErrorKind::permission, std::string(name) + " is not a folder of this user alone",
                folder.string(), remedy);
  }
  return {};
}

}  // namespace autotuned
