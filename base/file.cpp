// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/printable.hpp"

namespace autotuned {
namespace {

using std::filesystem::path;

constexpr std::size_t kMaxHolderBytes = 256;
// From this size on, files that killed writers leave behind would matter.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20U;
constexpr std::string_view kTemporaryBegin = ".autotuned-";
constexpr std::string_view kTemporaryEnd = ".tmp";

tl::unexpected<Error> failed(const char* what, const path& where) {
  return tl::unexpected(system_error(errno, what, where.string()));
}

// The error for a folder in which a file is to be made: it existed a moment ago, and is gone.
tl::unexpected<Error> failed_to_make(const char* what, const path& where) {
  const int number = errno;
  Error error = system_error(number, what, where.string());
  if (number == ENOENT) {
    error.remedy =
        "the folder is not there, or was deleted meanwhile: make it again, then give the same "
        "command again";
  }
  return tl::unexpected(std::move(error));
}

path folder_of(const path& file) {
  return file.has_parent_path() ? file.parent_path() : path(".");
}

// Reads up to `max_bytes` from the current position.
Result<std::string> read_some(int fd, std::size_t max_bytes, const path& where) {
  std::string content;
  constexpr std::size_t kStep = std::size_t{64} << 10U;
  while (content.size() < max_bytes) {
    const std::size_t before = content.size();
    content.resize(std::min(max_bytes, before + kStep));
    const ssize_t count = ::read(fd, content.data() + before, content.size() - before);
    content.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && errno != EINTR) return failed("cannot read", where);
    if (count == 0) break;
  }
  return content;
}

// A rename is durable once its folder is.
Result<void> sync_folder(const path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder and say EINVAL: nothing more can be done there.
  if (!opened.is_open() || (::fsync(opened.get()) != 0 && errno != EINVAL)) {
    return failed("cannot sync the folder", folder);
  }
  return {};
}

// Removes the temporary file unless it was renamed away.
class TemporaryFile {
 public:
  explicit TemporaryFile(path file) : file_(std::move(file)) {}
  ~TemporaryFile() {
    if (!file_.empty()) ::unlink(file_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  void take(path file) { file_ = std::move(file); }
  void keep() { file_.clear(); }

 private:
  path file_;
};

// The length of this name does not depend on the name of the file, which may be as long as the system allows.
path temporary_name(const path& folder) {
  std::uint64_t random = 0;
  (void)!getrandom(&random, sizeof(random), 0);
  return folder / fmt::format("{}{:016x}{}", kTemporaryBegin, random, kTemporaryEnd);
}

// Opens a file without a name, which disappears with its writer. The descriptor is closed if the file system has no such files.
Descriptor open_nameless(const path& folder, mode_t mode) {
  return Descriptor(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode));
}

// Errors include those of /proc, which may be missing.
bool give_name(const Descriptor& nameless, const path& name) {
  const std::string opened = "/proc/self/fd/" + std::to_string(nameless.get());
  return ::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

// Another user's lock in a shared folder can be taken, but not written to.
Descriptor open_lock(const path& file) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Descriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | kFlags, 0644));
  if (!lock.is_open() && (errno == EACCES || errno == EROFS)) {
    const int reason = errno;
    lock.reset(::open(file.c_str(), O_RDONLY | kFlags));
    if (!lock.is_open()) errno = reason;
  }
  return lock;
}

// Returns false if the file was removed or replaced while we waited for its lock.
bool is_still_at(const struct stat& opened, const path& file) {
  struct stat current {};
  return ::lstat(file.c_str(), &current) == 0 && current.st_dev == opened.st_dev &&
         current.st_ino == opened.st_ino;
}

}  // namespace

Result<std::string> read_file(const path& file, std::size_t max_bytes) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  const Descriptor input(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!input.is_open() || ::fstat(input.get(), &status) != 0) {
    return failed("cannot open the file", file);
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::invalid, "it is not a regular file", file.string());
  }
  // The reported size is not used: the file may grow, and files of the kernel report 0.
  Result<std::string> content = read_some(input.get(), max_bytes + 1, file);
  if (content && content->size() > max_bytes) {
    return fail(ErrorKind::invalid, fmt::format("the file is larger than {} bytes", max_bytes),
                file.string());
  }
  return content;
}

std::optional<std::string> first_bytes(const path& file, std::size_t max_bytes) {
  const Descriptor input(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!input.is_open() || ::fstat(input.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  auto bytes = read_some(input.get(), max_bytes, file);
  return bytes ? std::optional(*std::move(bytes)) : std::nullopt;
}

Result<void> write_file_atomically(const path& file, std::string_view content, bool shared) {
  const path folder = folder_of(file);
  const path name = temporary_name(folder);
  const mode_t mode = shared ? 0644 : 0600;
  Descriptor output;
  if (content.size() >= kLargeBytes) output = open_nameless(folder, mode);
  const bool is_nameless = output.is_open();
  if (!is_nameless) {
    output.reset(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  }
  if (!output.is_open()) return failed_to_make("cannot create a file in the folder", folder);
  TemporaryFile temporary(is_nameless ? path() : name);

  struct stat existing {};
  const bool replaces = ::lstat(file.c_str(), &existing) == 0 && S_ISREG(existing.st_mode);
  if (replaces && ::fchmod(output.get(), existing.st_mode & 0777U) != 0) {
    return failed("cannot set the mode", file);
  }
  if (!write_all(output.get(), content)) return failed("cannot write", file);
  if (::fsync(output.get()) != 0) return failed("cannot sync the file", file);
  // Only a rename replaces a file.
  if (is_nameless && !give_name(output, name)) return failed("cannot name the file", file);
  temporary.take(name);
  // Some file systems report a failed write only here.
  if (::close(output.release()) != 0 && errno != EINTR)
    return failed("cannot close the file", file);
  if (::rename(name.c_str(), file.c_str()) != 0) return failed("cannot replace the file", file);
  temporary.keep();
  return sync_folder(folder);
}

Result<void> check_output_file(const path& file, bool may_replace) {
  struct stat named {};
  if (::lstat(file.c_str(), &named) != 0) return {};
  struct stat reached = named;
  const bool is_link = S_ISLNK(named.st_mode);
  const bool is_reached = !is_link || ::stat(file.c_str(), &reached) == 0;
  if (is_reached && !S_ISREG(reached.st_mode)) {
    return fail(ErrorKind::invalid, "it is not a regular file", file.string(),
                "name a file, not a device, a pipe or a folder");
  }
  if (is_link) {
    return fail(ErrorKind::invalid, "it is a symbolic link, which would be replaced", file.string(),
                "name the file that it leads to, or another file");
  }
  if (!may_replace) {
    return fail(ErrorKind::invalid, "the file exists already", file.string(),
                "name another file, or give --overwrite");
  }
  return {};
}

void remove_unfinished_files(const path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(kTemporaryBegin) || !name.ends_with(kTemporaryEnd)) continue;
    std::error_code ignored;
    if (entry->symlink_status(ignored).type() == std::filesystem::file_type::regular) {
      std::filesystem::remove(entry->path(), ignored);
    }
  }
}

void name_holder(const Descriptor& lock, std::string_view holder) {
  // The text is only for people, so errors do not matter.
  if (::ftruncate(lock.get(), 0) != 0 || ::lseek(lock.get(), 0, SEEK_SET) != 0) return;
  static_cast<void>(write_all(lock.get(), holder.substr(0, kMaxHolderBytes)));
}

Result<void> publish_file(const path& temporary, const path& file) {
  const Descriptor written(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!written.is_open()) return failed("cannot open the file", temporary);
  if (::fsync(written.get()) != 0) return failed("cannot sync the file", temporary);
  if (::rename(temporary.c_str(), file.c_str()) != 0) {
    return failed("cannot replace the file", file);
  }
  return sync_folder(folder_of(file));
}

Result<Descriptor> lock_file(const path& file, std::string_view holder, bool wait) {
  while (true) {
    Descriptor lock = open_lock(file);
    struct stat status {};
    if (!lock.is_open() || ::fstat(lock.get(), &status) != 0) {
      return failed_to_make("cannot open the lock", file);
    }
    if (!S_ISREG(status.st_mode)) {
      return fail(ErrorKind::invalid, "the lock is not a regular file", file.string());
    }
    // In a folder that others can write to, the file may be a hard link that somebody made so that we empty another file.
    if (status.st_nlink > 1) {
      return fail(ErrorKind::invalid, "the lock file has further hard links", file.string());
    }
    if (::flock(lock.get(), wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        const Result<std::string> text = read_some(lock.get(), kMaxHolderBytes, file);
        const std::string who = printable(text.value_or(""));
        return fail(ErrorKind::busy,
                    who.empty() ? std::string("another process holds the lock") : "held by " + who,
                    file.string());
      }
      return failed("cannot lock", file);
    }
    if (!is_still_at(status, file)) continue;
    // The lock is held even if the text cannot be written.
    name_holder(lock, holder);
    return lock;
  }
}

std::string last_lines(const path& file, int max_lines, std::size_t max_bytes) {
  const Descriptor input(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!input.is_open() || ::fstat(input.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const off_t start = std::max<off_t>(0, status.st_size - static_cast<off_t>(max_bytes));
  if (::lseek(input.get(), start, SEEK_SET) < 0) return {};
  std::string text = read_some(input.get(), max_bytes, file).value_or("");
  while (!text.empty() && text.back() == '\n')
    text.pop_back();

  if (max_lines <= 0) return {};
  std::size_t line_end = text.size();
  for (int line = 1;; ++line) {
    const std::size_t newline = line_end == 0 ? std::string::npos : text.rfind('\n', line_end - 1);
    if (newline == std::string::npos) return text;
    if (line == max_lines) return text.substr(newline + 1);
    line_end = newline;
  }
}

}  // namespace autotuned
