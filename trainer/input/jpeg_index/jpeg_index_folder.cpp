// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_index/jpeg_index_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <vector>

#include "base/folder_names.hpp"

namespace autotuned::input {
namespace {

namespace fs = std::filesystem;
using Time = std::chrono::system_clock::time_point;

constexpr std::size_t kNameLength = 64;
constexpr auto kUnused = std::chrono::hours(24 * 30);
// Writing an index takes seconds.
constexpr auto kLeftBehind = std::chrono::hours(24);

struct IndexFile {
  fs::path path;
  Time used;
  std::int64_t bytes = 0;
};

Time time_of(const timespec& time) {
  return Time(std::chrono::duration_cast<Time::duration>(std::chrono::seconds(time.tv_sec) +
                                                         std::chrono::nanoseconds(time.tv_nsec)));
}

bool is_index_name(const std::string& name) {
  return name.size() == kNameLength && name.find_first_not_of("0123456789abcdef") == name.npos;
}

void remove_file(const fs::path& file) {
  std::error_code ignored;
  fs::remove(file, ignored);
}

}  // namespace

void mark_used(const fs::path& index) {
  std::array<timespec, 2> times{};
  times[0].tv_nsec = UTIME_NOW;
  times[1].tv_nsec = UTIME_OMIT;
  (void)::utimensat(AT_FDCWD, index.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
}

void prune_indices(const fs::path& folder, const fs::path& spared,
                   const IndexFolderLimits& limits) {
  std::vector<IndexFile> kept;
  std::int64_t bytes = 0;
  FolderNames names(folder.c_str());
  while (const auto found = names.next()) {
    const std::string name(*found);
    const fs::path path = folder / name;
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const Time changed = time_of(status.st_mtim);
    if (name.starts_with(kUnpublishedIndex)) {
      if (limits.now - changed > kLeftBehind) remove_file(path);
      continue;
    }
    if (!is_index_name(name)) continue;
    const Time used = std::max(changed, time_of(status.st_atim));
    if (path != spared && limits.now - used > kUnused) {
      remove_file(path);
      continue;
    }
    kept.push_back({path, used, status.st_size});
    bytes += status.st_size;
  }
  const std::int64_t most = (limits.free_bytes + bytes) / 2;
  std::ranges::sort(kept, {}, &IndexFile::used);
  for (const IndexFile& one : kept) {
    if (bytes <= most) break;
    if (one.path == spared) continue;
    remove_file(one.path);
    bytes -= one.bytes;
  }
}

}  // namespace autotuned::input
