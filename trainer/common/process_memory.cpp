// SPDX-License-Identifier: Apache-2.0
#include "trainer/common/process_memory.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <ctime>
#include <filesystem>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/machine/allocator_library.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::int64_t kBlockBytes = 512;  // in which the kernel counts what storage delivers

// The value of a line such as "VmHWM:   123456 kB", in bytes; 0 when not there.
std::int64_t bytes_in(const char* path, std::string_view name) {
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  char buffer[8192];
  const ssize_t length = file.is_open() ? read(file.get(), buffer, sizeof(buffer)) : 0;
  if (length <= 0) return 0;
  const std::string_view text(buffer, static_cast<std::size_t>(length));
  const std::size_t line = text.find(name);
  if (line == std::string_view::npos) return 0;
  const std::size_t digits = text.find_first_of("0123456789", line);
  if (digits == std::string_view::npos) return 0;
  std::int64_t kibibytes = 0;
  std::from_chars(text.data() + digits, text.data() + text.size(), kibibytes);
  return kibibytes * 1024;
}

std::int64_t status_bytes(std::string_view name) {
  return bytes_in("/proc/self/status", name);
}

}  // namespace

std::int64_t process_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

KernelUse kernel_use() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {.cpu_ns = static_cast<std::int64_t>(usage.ru_stime.tv_sec) * 1'000'000'000 +
                    static_cast<std::int64_t>(usage.ru_stime.tv_usec) * 1000,
          .page_faults = usage.ru_minflt,
          .storage_bytes = static_cast<std::int64_t>(usage.ru_inblock) * kBlockBytes};
}

std::int64_t available_memory_bytes(std::int64_t allowed_bytes) {
  const std::int64_t left = allowed_bytes - status_bytes("VmRSS:");
  return std::max<std::int64_t>(std::min(left, bytes_in("/proc/meminfo", "MemAvailable:")), 0);
}

void HostMemoryPeak::start() {
  const Descriptor file(open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
  is_reset_ = file.is_open() && write(file.get(), "5", 1) == 1;
  at_start_bytes_ = is_reset_ ? 0 : status_bytes("VmRSS:");
}

std::int64_t HostMemoryPeak::peak_bytes() const {
  return is_reset_ ? status_bytes("VmHWM:") : std::max(at_start_bytes_, status_bytes("VmRSS:"));
}

Result<void> set_malloc_policy(const std::string& policy) {
  static bool is_kept = false;
  if (policy == "default") {
    if (!is_kept) return {};
    return fail(ErrorKind::invalid, "cannot be changed while the trainer runs", "memory.malloc",
                "start another trainer");
  }
  if (policy != "keep")
    return fail(ErrorKind::invalid, "expected default or keep", "memory.malloc");
  if (mallopt(M_MMAP_THRESHOLD, INT_MAX) != 1 || mallopt(M_TRIM_THRESHOLD, INT_MAX) != 1) {
    return fail(ErrorKind::unsupported, "the C library refused it", "memory.malloc");
  }
  is_kept = true;
  return {};
}

std::string allocator_in_use() {
  Dl_info found{};
  const void* const function = ::dlsym(RTLD_DEFAULT, "malloc");
  if (function == nullptr || ::dladdr(function, &found) == 0 || found.dli_fname == nullptr) {
    return "glibc";
  }
  const std::string file = std::filesystem::path(found.dli_fname).filename().string();
  for (const AllocatorLibrary& library : kAllocatorLibraries) {
    if (file.starts_with("lib" + std::string(library.name))) return std::string(library.name);
  }
  return "glibc";
}

Result<void> check_allocator(const std::string& allocator, const std::string& policy) {
  if (allocator == "glibc") return {};
  if (allocator_in_use() != allocator) {
    return fail(
        ErrorKind::invalid,
        "the trainer was not started with " + allocator + ", but with " + allocator_in_use(),
        "memory.allocator", "start another trainer");
  }
  if (policy != "default") {
    return fail(ErrorKind::invalid, policy + " is for glibc, and memory.allocator is " + allocator,
                "memory.malloc", "set it to default");
  }
  return {};
}

}  // namespace autotuned::trainer
