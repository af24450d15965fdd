// SPDX-License-Identifier: Apache-2.0
#include "storage/location.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/user_folders.hpp"
#include "storage/connection.hpp"

namespace autotuned::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kElsewhere =
    "choose a file on a local disk with --history or AUTOTUNED_HISTORY";

struct NamedType {
  std::uint64_t type;
  std::string_view name;
};

// Some of these are in linux/magic.h, the others in the source of each file system.
constexpr std::array kNetworkTypes = {
    NamedType{0x6969, "NFS"},
    NamedType{0xFF534D42, "CIFS"},
    NamedType{0xFE534D42, "SMB"},
    NamedType{0x517B, "SMB"},
    NamedType{0x5346414F, "AFS"},
    NamedType{0x6B414653, "AFS"},
    NamedType{0x73757245, "Coda"},
    NamedType{0x00C36400, "Ceph"},
    NamedType{0x0BD00BD0, "Lustre"},
    NamedType{0x47504653, "GPFS"},
    NamedType{0x19830326, "BeeGFS"},
    NamedType{0x20030528, "OrangeFS"},
    NamedType{0xAAD7AAEA, "PanFS"},
    NamedType{0x01161970, "GFS2"},
    NamedType{0x7461636F, "OCFS2"},
    NamedType{0x564C, "NCP"},
    NamedType{0x786F4256, "VirtualBox shared folders"},
};

fs::path nearest_existing(fs::path path) {
  std::error_code ignored;
  while (!fs::exists(path, ignored) && path.has_relative_path())
    path = path.parent_path();
  return path;
}

// SQLite reads the file: closing a descriptor of ours would drop the locks of a connection of this process (see make_file()).
bool is_database(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  try {
    SQLite::Database database(immutable_uri(file), SQLite::OPEN_READONLY | SQLite::OPEN_URI);
    // A database of another program counts, too: it would lose its log in the same way.
    return database.execAndGet("PRAGMA page_count").getInt64() > 0;
  } catch (const SQLite::Exception&) {
    return false;
  }
}

// Makes the error of a failed faccessat().
Result<void> refuse(const char* what, const fs::path& where) {
  Error error = system_error(errno, what, where);
  // For the user, a file system that is mounted read-only is the same as a missing permission.
  error.kind = ErrorKind::permission;
  error.remedy = "check owner and mode, or choose another file with --history";
  return tl::unexpected(std::move(error));
}

}  // namespace

std::optional<std::string_view> network_file_system(std::uint64_t type) {
  for (const NamedType& known : kNetworkTypes) {
    if (known.type == type) return known.name;
  }
  return std::nullopt;
}

Result<void> check_file_system(const fs::path& file) {
  const fs::path existing = nearest_existing(file);
  struct statfs facts {};
  if (::statfs(existing.c_str(), &facts) != 0) {
    return tl::unexpected(system_error(errno, "cannot look at the file system", existing));
  }
  // f_type is signed on some architectures. The magic numbers have 32 bits.
  const auto type = static_cast<std::uint64_t>(facts.f_type) & 0xFFFFFFFFU;
  if (const auto name = network_file_system(type)) {
    return fail(ErrorKind::unsupported,
                "the history cannot be kept on " + std::string(*name) +
                    ", a network file system, where locks cannot be trusted",
                file, std::string(kElsewhere));
  }
  return {};
}

Result<void> make_file(const fs::path& file) {
  if (auto made = make_folders(file.parent_path()); !made) {
    Error refusal = made.error();
    // not_found would say that there is no history yet.
    if (refusal.kind == ErrorKind::not_found) refusal.kind = ErrorKind::io;
    return tl::unexpected(std::move(refusal));
  }
  // mknod() and not open(), because closing a descriptor of this file would drop the locks that another
  // connection of this process holds on it (fcntl(2), "advisory record locking").
  if (::mknod(file.c_str(), S_IFREG | 0600, 0) != 0 && errno != EEXIST) {
    return tl::unexpected(system_error(errno, "cannot make the history", file));
  }
  return {};
}

Result<void> check_readable(const fs::path& file) {
  if (::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) == 0) return {};
  if (errno == ENOENT || errno == ENOTDIR) {
    return fail(ErrorKind::not_found, "there is no history yet", file,
                "'autotuned run FILE' starts one");
  }
  return refuse("cannot read the history", file);
}

Result<void> check_writable(const fs::path& file) {
  if (::faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
    return refuse("cannot write to the history", file);
  }
  const fs::path folder = file.parent_path();
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return refuse("cannot write beside the history", folder);
  }
  return {};
}

Result<void> check_no_side_file(const fs::path& file) {
  std::error_code error;
  const fs::path named = fs::absolute(file, error).lexically_normal();
  for (fs::path path : {named, fs::weakly_canonical(named, error)}) {
    for (; path.has_relative_path(); path = path.parent_path()) {
      const std::string name = path.string();
      for (const std::string_view suffix : {"-wal", "-shm", "-journal", "-owners"}) {
        if (!name.ends_with(suffix)) continue;
        const fs::path database = name.substr(0, name.size() - suffix.size());
        if (!is_database(database)) continue;
        return fail(ErrorKind::invalid,
                    "this name is reserved for a file of the database " + database.string(), file,
                    "name another file");
      }
    }
  }
  return {};
}

}  // namespace autotuned::storage
