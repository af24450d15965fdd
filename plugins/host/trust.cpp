// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/trust.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <vector>

#include "base/descriptor.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kRule =
    "plugins and the folders above them must be owned by this user or root and writable by nobody "
    "else";

// Asking for the group may go to the network, and the answer does not change.
const Viewer& viewer() {
  static const Viewer kViewer = Viewer::current();
  return kViewer;
}

Result<void> check_folders(const std::filesystem::path& folder) {
  for (std::filesystem::path at = folder;; at = at.parent_path()) {
    struct stat status {};
    if (::lstat(at.c_str(), &status) != 0) {
      return tl::unexpected(system_error(errno, "cannot be examined", at.string()));
    }
    if (!S_ISDIR(status.st_mode)) return fail(ErrorKind::invalid, "is not a folder", at.string());
    std::string reason = distrust(status, viewer(), at != folder);
    if (reason.empty()) reason = distrust_acl(at.string(), viewer());
    if (!reason.empty()) return fail(ErrorKind::permission, reason, at.string(), kRule);
    if (at == at.root_path()) return {};
  }
}

}  // namespace

Viewer Viewer::current() {
  Viewer viewer{.user = ::geteuid()};
  const struct passwd* const entry = ::getpwuid(viewer.user);
  if (entry == nullptr) return viewer;
  const std::string name = entry->pw_name;
  const gid_t primary = entry->pw_gid;
  const struct group* const group = ::getgrgid(primary);
  const bool is_private = group != nullptr && name == group->gr_name &&
                          (group->gr_mem == nullptr || *group->gr_mem == nullptr);
  if (is_private) viewer.private_group = primary;
  return viewer;
}

std::string distrust(const struct stat& status, const Viewer& viewer, bool is_ancestor) {
  if (status.st_uid != 0 && status.st_uid != viewer.user) {
    return fmt::format("is owned by user {}, neither root nor user {}", status.st_uid, viewer.user);
  }
  const bool is_shared_folder =
      is_ancestor && status.st_uid == 0 && (status.st_mode & S_ISVTX) != 0;
  if (is_shared_folder) return {};
  const auto mode = static_cast<unsigned>(status.st_mode & 07777U);
  if ((status.st_mode & S_IWOTH) != 0)
    return fmt::format("can be written by all (mode {:o})", mode);
  if ((status.st_mode & S_IWGRP) != 0 && status.st_gid != viewer.private_group) {
    return fmt::format("can be written by group {} (mode {:o})", status.st_gid, mode);
  }
  return {};
}

std::string distrust_acl_value(std::string_view value, const Viewer& viewer) {
  // Little-endian: the version 2, then a tag, permissions and the number of a user or group for each entry.
  constexpr std::size_t kHeaderBytes = 4;
  constexpr std::size_t kEntryBytes = 8;
  constexpr unsigned kUser = 0x02;
  constexpr unsigned kGroup = 0x08;
  constexpr unsigned kMask = 0x10;
  constexpr unsigned kWrite = 0x02;
  struct Entry {
    std::uint16_t tag = 0;
    std::uint16_t permissions = 0;
    std::uint32_t id = 0;
  };
  static_assert(sizeof(Entry) == kEntryBytes);
  std::vector<Entry> entries;
  for (std::size_t at = kHeaderBytes; at + kEntryBytes <= value.size(); at += kEntryBytes) {
    std::memcpy(&entries.emplace_back(), value.data() + at, kEntryBytes);
  }
  const auto mask = std::ranges::find(entries, kMask, &Entry::tag);
  if (mask != entries.end() && (mask->permissions & kWrite) == 0) return {};
  for (const Entry& entry : entries) {
    if ((entry.permissions & kWrite) == 0) continue;
    if (entry.tag == kUser && entry.id != 0 && entry.id != viewer.user) {
      return fmt::format("can be written by user {} (access control list)", entry.id);
    }
    if (entry.tag == kGroup && entry.id != viewer.private_group) {
      return fmt::format("can be written by group {} (access control list)", entry.id);
    }
  }
  return {};
}

std::string distrust_acl(const std::string& path, const Viewer& viewer) {
  constexpr std::size_t kMaxBytes = 65536;  // of an attribute
  std::string value(kMaxBytes, '\0');
  const ssize_t size =
      ::getxattr(path.c_str(), "system.posix_acl_access", value.data(), value.size());
  // None, or a file system without them.
  if (size < 0) return {};
  return distrust_acl_value(std::string_view(value).substr(0, static_cast<std::size_t>(size)),
                            viewer);
}

Result<std::filesystem::path> trusted_folder(const std::filesystem::path& folder) {
  if (!folder.is_absolute()) {
    return fail(ErrorKind::invalid, "is not an absolute path", folder.string(),
                "a relative folder would depend on where the program is started");
  }
  std::error_code error;
  std::filesystem::path canonical = std::filesystem::canonical(folder, error);
  if (error) {
    return tl::unexpected(system_error(error.value(), "cannot be opened", folder.string()));
  }
  if (auto checked = check_folders(canonical); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  return canonical;
}

Result<std::filesystem::path> trusted_file(const std::filesystem::path& file,
                                           const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path canonical = std::filesystem::canonical(file, error);
  if (error) return tl::unexpected(system_error(error.value(), "cannot be opened", file.string()));
  if (canonical.parent_path() != folder) {
    return fail(ErrorKind::permission, "is a symbolic link to " + canonical.string(), file.string(),
                "a plugin must lie in the folder that was searched, " + folder.string());
  }
  // O_NONBLOCK: opening a named pipe would wait for a writer.
  const Descriptor opened(
      ::open(canonical.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!opened.is_open()) {
    return tl::unexpected(system_error(errno, "cannot be opened", canonical.string()));
  }
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) {
    return tl::unexpected(system_error(errno, "cannot be examined", canonical.string()));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::invalid, "is not a regular file", canonical.string());
  }
  std::string reason = distrust(status, viewer(), false);
  if (reason.empty()) {
    reason = distrust_acl("/proc/self/fd/" + std::to_string(opened.get()), viewer());
  }
  if (!reason.empty()) return fail(ErrorKind::permission, reason, canonical.string(), kRule);
  return canonical;
}

}  // namespace autotuned::plugins
