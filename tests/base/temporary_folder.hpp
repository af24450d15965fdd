// SPDX-License-Identifier: Apache-2.0
// A fresh folder for one test, removed with all that is in it.
#pragma once

#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace autotuned {

// A place in memory, where nobody waits for the syncs of a disk. The usual place if TMPDIR names one, or if no folder
// in memory has room and may hold programs.
inline std::filesystem::path place_in_memory() {
  constexpr const char* kMemory = "/dev/shm";
  constexpr std::uint64_t kMinFreeBytes = std::uint64_t{1} << 30U;
  struct statvfs facts {};
  const bool fits = std::getenv("TMPDIR") == nullptr && ::access(kMemory, W_OK | X_OK) == 0 &&
                    ::statvfs(kMemory, &facts) == 0 && (facts.f_flag & ST_NOEXEC) == 0 &&
                    std::uint64_t{facts.f_bavail} * facts.f_frsize >= kMinFreeBytes;
  return fits ? std::filesystem::path(kMemory) : std::filesystem::temp_directory_path();
}

class TemporaryFolder {
 public:
  TemporaryFolder() : TemporaryFolder(std::filesystem::temp_directory_path()) {}
  explicit TemporaryFolder(const std::filesystem::path& above) {
    std::string name = (above / "autotuned-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const {
    return path_ / name;
  }

  // Makes the folders that are missing.
  std::filesystem::path write(std::string_view name, std::string_view content) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }
  [[nodiscard]] std::string read(std::string_view name) const {
    std::ifstream input(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(input), {}};
  }
  // How many entries lie directly in it.
  [[nodiscard]] long entries() const {
    return std::distance(std::filesystem::directory_iterator(path_), {});
  }

 private:
  std::filesystem::path path_;
};

}  // namespace autotuned
