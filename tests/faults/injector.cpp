// SPDX-License-Identifier: Apache-2.0
// Preloaded into `autotuned`: fails one call of the C library at one place of the program.
//
// A place is a function and the return addresses that lead to it, as module+offset: the six innermost
// frames, or, for memory, the innermost that is not the language's own library (else there would be a
// place for every path to std::string). In the environment:
//   AUTOTUNED_FAULT_RECORD=FILE    appends a line `HASH FUNCTION FRAMES` for each place, and fails nothing
//   AUTOTUNED_FAULT_SITE=HASH      the place that fails
//   AUTOTUNED_FAULT_FUNCTION=NAME  its function; no other one looks at its callers
//   AUTOTUNED_FAULT_ERRNO=N        with this error
//   AUTOTUNED_FAULT_MARK=FILE      once over all processes: the one that makes this file fails
//   AUTOTUNED_FAULT_STAYS=1        not only once: every call from that place
// Nothing here allocates, except through the real malloc.
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
}

namespace {

constexpr std::size_t kMaxPlaces = 1U << 15U;
constexpr int kMaxFrames = 24;
constexpr int kPlaceFrames = 6;

struct Settings {
  const char* record = nullptr;
  const char* function = nullptr;
  const char* mark = nullptr;
  std::uint64_t site = 0;
  int error = 0;
  bool stays = false;
  bool is_on = false;
};
Settings settings;

// Whether this thread is inside of a hook: one that is entered from within a hook passes on.
thread_local bool is_inside __attribute__((tls_model("initial-exec"))) = false;

std::array<std::uint64_t, kMaxPlaces> seen_places{};

struct Frame {
  const void* address = nullptr;
  const char* module = "?";  // file name without folder
  std::uint64_t offset = 0;
};

const char* leaf_of(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

int locate(dl_phdr_info* info, std::size_t, void* data) {
  auto* frame = static_cast<Frame*>(data);
  const auto address = reinterpret_cast<std::uint64_t>(frame->address);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const std::uint64_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || address < start || address >= start + segment.p_memsz)
      continue;
    frame->module = *info->dlpi_name == '\0' ? "autotuned" : leaf_of(info->dlpi_name);
    frame->offset = address - info->dlpi_addr;
    return 1;
  }
  return 0;
}

bool begins(const char* text, const char* with) {
  return std::strncmp(text, with, std::strlen(with)) == 0;
}

bool is_of_language(const char* module) {
  return begins(module, "libstdc++") || begins(module, "libc.so") || begins(module, "libgcc") ||
         begins(module, "ld-linux");
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x100000001b3ULL;
}

std::uint64_t hash_of(const char* text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (; *text != '\0'; ++text)
    hash = mix(hash, static_cast<unsigned char>(*text));
  return hash;
}

struct Place {
  std::uint64_t hash = 0;
  int frames = 0;
  std::array<Frame, kPlaceFrames> frame;
};

Place place_of(const char* function, bool is_memory) {
  std::array<void*, kMaxFrames> addresses{};
  const int count = backtrace(addresses.data(), kMaxFrames);
  Place place;
  place.hash = hash_of(function);
  const int wanted = is_memory ? 1 : kPlaceFrames;
  for (int i = 0; i < count && place.frames < wanted; ++i) {
    Frame frame{.address = addresses[static_cast<std::size_t>(i)]};
    dl_iterate_phdr(locate, &frame);
    if (begins(frame.module, "libfault_injector")) continue;
    if (is_memory && is_of_language(frame.module)) continue;
    place.hash = mix(mix(place.hash, hash_of(frame.module)), frame.offset);
    place.frame[static_cast<std::size_t>(place.frames++)] = frame;
  }
  return place;
}

bool is_new(std::uint64_t hash) {
  for (std::uint64_t at = hash;; ++at) {
    std::uint64_t& slot = seen_places[at % kMaxPlaces];
    if (slot == hash) return false;
    if (slot != 0) continue;
    slot = hash;
    return true;
  }
}

void record(const char* function, const Place& place) {
  std::array<char, 1024> line{};
  int length = std::snprintf(line.data(), line.size(), "%016llx %s",
                             static_cast<unsigned long long>(place.hash), function);
  for (int i = 0; i < place.frames; ++i) {
    const Frame& frame = place.frame[static_cast<std::size_t>(i)];
    length +=
        std::snprintf(line.data() + length, line.size() - static_cast<std::size_t>(length),
                      " %s+0x%llx", frame.module, static_cast<unsigned long long>(frame.offset));
  }
  line[static_cast<std::size_t>(length++)] = '\n';
  const long file =
      ::syscall(SYS_open, settings.record, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  ::syscall(SYS_write, file, line.data(), length);
  ::syscall(SYS_close, file);
}

bool takes_mark() {
  const long file =
      ::syscall(SYS_open, settings.mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) ::syscall(SYS_close, file);
  return file >= 0 || settings.stays;
}

// Whether this call is the one that fails; then errno is set.
bool must_fail(const char* function, bool is_memory = false) {
  if (!settings.is_on || is_inside) return false;
  if (settings.record == nullptr && std::strcmp(settings.function, function) != 0) return false;
  is_inside = true;
  const int error = errno;
  const Place place = place_of(function, is_memory);
  bool fails = false;
  if (settings.record != nullptr) {
    if (is_new(place.hash)) record(function, place);
  } else {
    fails = place.hash == settings.site && takes_mark();
  }
  errno = fails ? settings.error : error;
  is_inside = false;
  return fails;
}

template <class Function>
Function next(const char* name) {
  is_inside = true;
  void* const found = dlsym(RTLD_NEXT, name);
  is_inside = false;
  return reinterpret_cast<Function>(found);
}

__attribute__((constructor)) void start() {
  std::array<char, 256> program{};
  const ssize_t length = ::readlink("/proc/self/exe", program.data(), program.size() - 1);
  if (length <= 0 || std::strcmp(leaf_of(program.data()), "autotuned") != 0) return;
  // The first backtrace loads a library, which allocates.
  std::array<void*, 4> warm{};
  backtrace(warm.data(), static_cast<int>(warm.size()));
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  settings.record = std::getenv("AUTOTUNED_FAULT_RECORD");
  settings.function = text("AUTOTUNED_FAULT_FUNCTION");
  settings.mark = text("AUTOTUNED_FAULT_MARK");
  settings.site = std::strtoull(text("AUTOTUNED_FAULT_SITE"), nullptr, 16);
  settings.error = std::atoi(text("AUTOTUNED_FAULT_ERRNO"));
  settings.stays = *text("AUTOTUNED_FAULT_STAYS") != '\0';
  settings.is_on = settings.record != nullptr || settings.error != 0;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Passes a call on, or answers `failure`.
#define HOOK(result, name, failure, parameters, arguments)      \
  EXPORTED result name parameters {                             \
    static const auto real = next<result(*) parameters>(#name); \
    if (must_fail(#name)) return failure;                       \
    return real arguments;                                      \
  }

HOOK(ssize_t, read, -1, (int fd, void* to, size_t n), (fd, to, n))
HOOK(ssize_t, pread64, -1, (int fd, void* to, size_t n, off64_t at), (fd, to, n, at))
HOOK(ssize_t, recv, -1, (int fd, void* to, size_t n, int flags), (fd, to, n, flags))
HOOK(ssize_t, write, -1, (int fd, const void* from, size_t n), (fd, from, n))
HOOK(ssize_t, writev, -1, (int fd, const iovec* from, int n), (fd, from, n))
HOOK(ssize_t, pwrite64, -1, (int fd, const void* from, size_t n, off64_t at), (fd, from, n, at))
HOOK(ssize_t, send, -1, (int fd, const void* from, size_t n, int flags), (fd, from, n, flags))
HOOK(int, fsync, -1, (int fd), (fd))
HOOK(int, fdatasync, -1, (int fd), (fd))
HOOK(int, ftruncate, -1, (int fd, off_t size), (fd, size))
HOOK(int, ftruncate64, -1, (int fd, off64_t size), (fd, size))
HOOK(int, rename, -1, (const char* from, const char* to), (from, to))
HOOK(int, mkdir, -1, (const char* name, mode_t mode), (name, mode))
HOOK(int, mknod, -1, (const char* name, mode_t mode, dev_t dev), (name, mode, dev))
HOOK(int, unlink, -1, (const char* name), (name))
HOOK(int, socketpair, -1, (int domain, int type, int protocol, int* fds),
     (domain, type, protocol, fds))
HOOK(int, pipe, -1, (int* fds), (fds))
HOOK(int, dup, -1, (int fd), (fd))
HOOK(int, eventfd, -1, (unsigned count, int flags), (count, flags))
HOOK(int, epoll_create1, -1, (int flags), (flags))
HOOK(int, timerfd_create, -1, (int clock, int flags), (clock, flags))
HOOK(int, pidfd_open, -1, (pid_t pid, unsigned flags), (pid, flags))
HOOK(DIR*, opendir, nullptr, (const char* name), (name))
HOOK(dirent*, readdir, nullptr, (DIR * folder), (folder))
HOOK(FILE*, fopen64, nullptr, (const char* name, const char* mode), (name, mode))
HOOK(void*, mmap64, MAP_FAILED,
     (void* at, size_t size, int protection, int flags, int fd, off64_t offset),
     (at, size, protection, flags, fd, offset))
HOOK(int, posix_spawn, settings.error,
     (pid_t * pid, const char* program, const posix_spawn_file_actions_t* actions,
      const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment),
     (pid, program, actions, attributes, arguments, environment))

// An open that may make a file can lack space; so it has a name of its own.
#define HOOK_OPEN(name)                                                         \
  EXPORTED int name(const char* file, int flags, ...) {                         \
    static const auto real = next<int (*)(const char*, int, ...)>(#name);       \
    va_list list;                                                               \
    va_start(list, flags);                                                      \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;      \
    va_end(list);                                                               \
    if (must_fail((flags & O_CREAT) != 0 ? #name "+create" : #name)) return -1; \
    return real(file, flags, mode);                                             \
  }
HOOK_OPEN(open)
HOOK_OPEN(open64)

EXPORTED int openat(int folder, const char* file, int flags, ...) {
  static const auto real = next<int (*)(int, const char*, int, ...)>("openat");
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (must_fail("openat")) return -1;
  return real(folder, file, flags, mode);
}

EXPORTED int fcntl(int fd, int command, ...) {
  static const auto real = next<int (*)(int, int, ...)>("fcntl");
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  const bool is_copy = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (is_copy && must_fail("fcntl")) return -1;
  return real(fd, command, argument);
}

EXPORTED void* malloc(std::size_t size) {
  return must_fail("malloc", true) ? nullptr : __libc_malloc(size);
}
EXPORTED void* calloc(std::size_t count, std::size_t size) {
  return must_fail("calloc", true) ? nullptr : __libc_calloc(count, size);
}
EXPORTED void* realloc(void* old, std::size_t size) {
  return must_fail("realloc", true) ? nullptr : __libc_realloc(old, size);
}
