// SPDX-License-Identifier: Apache-2.0
#include "base/user_folders.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace autotuned {
namespace {

namespace fs = std::filesystem;

fs::path home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  const passwd* user = ::getpwuid(::geteuid());
  return user != nullptr && user->pw_dir != nullptr ? fs::path(user->pw_dir) : fs::path(".");
}

}  // namespace

fs::path state_folder() {
  // The XDG specification tells to ignore a relative path.
  const char* state = std::getenv("XDG_STATE_HOME");
  const fs::path folder =
      state != nullptr && *state == '/' ? fs::path(state) : home_folder() / ".local" / "state";
  return folder / "autotuned";
}

Result<void> make_private_folder(const fs::path& folder, const char* name, const char* remedy) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
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
