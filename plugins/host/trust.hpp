// SPDX-License-Identifier: Apache-2.0
// Whether a file may be run: it, and every folder on the way to it, can be changed by nobody but this
// user and root.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::plugins {

// The user for whom trust is decided, with the group whose only member is that user; -1 if there is no such group.
// (Debian, Fedora and others give each user a group of their own, and a umask that lets it write.)
struct Viewer {
  uid_t user = 0;
  gid_t private_group = static_cast<gid_t>(-1);

  [[nodiscard]] static Viewer current();
};

// Returns why a file or folder with this owner and mode must not be trusted, as a clause; empty if it may be trusted. A
// folder above (`is_ancestor`) may be writable by all when it is sticky and root's, like /tmp: in such a folder nobody
// can replace what another user owns.
[[nodiscard]] std::string distrust(const struct stat& status, const Viewer& viewer,
                                   bool is_ancestor);

// Like distrust(), for the access control list of the file at `path` (links are followed): entries for users and groups
// that the mode does not name.
[[nodiscard]] std::string distrust_acl(const std::string& path, const Viewer& viewer);
// Like distrust_acl(), for the value of the attribute system.posix_acl_access; also empty if `value` is not a valid
// one.
[[nodiscard]] std::string distrust_acl_value(std::string_view value, const Viewer& viewer);

// The canonical path of a folder that may be trusted, all folders above it included.
// ErrorKind::permission says which of them is not, not_found and invalid (relative, not a folder) what
// else is wrong.
[[nodiscard]] Result<std::filesystem::path> trusted_folder(const std::filesystem::path& folder);

// The canonical path of a file directly in `folder`, a result of trusted_folder(). Symbolic links are
// followed as long as they stay in the folder. Afterwards the path may be opened again: only this user
// and root could have exchanged the file.
[[nodiscard]] Result<std::filesystem::path> trusted_file(const std::filesystem::path& file,
                                                         const std::filesystem::path& folder);

}  // namespace autotuned::plugins
