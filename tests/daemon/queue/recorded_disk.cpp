// SPDX-License-Identifier: Apache-2.0
#include "tests/daemon/queue/recorded_disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace autotuned {

namespace fs = std::filesystem;

struct RecordedDisk::Record {
  enum class Kind { open, write, truncate, sync, rename, remove, make_folder };
  struct Operation {
    Kind kind = Kind::open;
    std::string path;  // below the folder; of open, rename, remove, make_folder
    std::string to;    // of rename
    int file = 0;      // as opened: of open, write, truncate, sync
    int flags = 0;     // of open
    std::string bytes;
    std::size_t offset = 0;  // of write; of truncate the new size
  };

  fs::path folder;
  std::vector<Operation> operations;
  std::map<int, int> opened;  // by descriptor
  int files = 0;

  [[nodiscard]] std::optional<std::string> below(const char* path) const {
    const fs::path relative = fs::path(path).lexically_normal().lexically_relative(folder);
    if (relative.empty() || *relative.begin() == "..") return std::nullopt;
    return relative.string();
  }
  [[nodiscard]] std::optional<int> file_of(int descriptor) const {
    const auto found = opened.find(descriptor);
    return found == opened.end() ? std::nullopt : std::optional(found->second);
  }
};

namespace {

using Kind = RecordedDisk::Record::Kind;
using Operation = RecordedDisk::Record::Operation;

RecordedDisk::Record* current = nullptr;

// What the operations leave behind, as the process sees it and as the disk has it.
class Disk {
 public:
  Disk(Unsynced unsynced, std::uint64_t seed, Heeded heeded)
      : unsynced_(unsynced), heeded_(heeded), random_(seed) {
    nodes_.push_back({.is_folder = true});
  }

  void apply(const Operation& operation) {
    switch (operation.kind) {
      case Kind::open:
        return open(operation);
      case Kind::write:
        nodes_[opened_.at(operation.file)].writes.push_back({operation.offset, operation.bytes});
        return;
      case Kind::truncate:
        nodes_[opened_.at(operation.file)].writes.push_back({operation.offset, std::nullopt});
        return;
      case Kind::sync:
        return sync(nodes_[opened_.at(operation.file)]);
      case Kind::make_folder:
        return name(operation.path, add({.is_folder = true}));
      case Kind::remove:
        return name(operation.path, std::nullopt);
      case Kind::rename: {
        Node& folder = nodes_[folder_of(operation.path)];
        if (folder_of(operation.path) != folder_of(operation.to)) {
          throw std::runtime_error("renaming from folder to folder is not modelled");
        }
        const std::string from = fs::path(operation.path).filename();
        const std::size_t node = folder.names.at(from);
        const Change change = {{from, std::nullopt},
                               {fs::path(operation.to).filename().string(), node}};
        put(folder.names, change);
        folder.changes.push_back(change);
        return;
      }
    }
  }

  void write_to(const fs::path& into) {
    for (Node& node : nodes_) {
      for (const Change& change : node.changes) {
        if (is_kept(/*is_name=*/true)) put(node.durable_names, change);
      }
      for (const Write& write : node.writes) {
        if (is_kept(/*is_name=*/false)) put(node.durable_bytes, write);
      }
    }
    write_folder(nodes_.front(), into);
  }

 private:
  using Change = std::vector<std::pair<std::string, std::optional<std::size_t>>>;  // all or nothing
  using Write = std::pair<std::size_t, std::optional<std::string>>;  // without bytes: a truncation
  struct Node {
    bool is_folder = false;
    std::map<std::string, std::size_t> names;
    std::map<std::string, std::size_t> durable_names;
    std::vector<Change> changes;  // since the last sync
    std::string durable_bytes;
    std::vector<Write> writes;  // since the last sync
  };

  static void put(std::map<std::string, std::size_t>& names, const Change& change) {
    for (const auto& [name, node] : change) {
      if (node) {
        names[name] = *node;
      } else {
        names.erase(name);
      }
    }
  }
  static void put(std::string& bytes, const Write& write) {
    const auto& [offset, text] = write;
    if (!text) return bytes.resize(offset, '\0');
    if (bytes.size() < offset + text->size()) bytes.resize(offset + text->size(), '\0');
    bytes.replace(offset, text->size(), *text);
  }

  void open(const Operation& operation) {
    if (operation.path == ".") {
      opened_[operation.file] = 0;
      return;
    }
    const Node& folder = nodes_[folder_of(operation.path)];
    const auto found = folder.names.find(fs::path(operation.path).filename());
    if (found == folder.names.end()) {
      opened_[operation.file] = add({});
      return name(operation.path, opened_[operation.file]);
    }
    opened_[operation.file] = found->second;
    if ((operation.flags & O_TRUNC) != 0) nodes_[found->second].writes.push_back({0, std::nullopt});
  }

  void sync(Node& node) const {
    if (node.is_folder ? heeded_ == Heeded::files_only : heeded_ == Heeded::folders_only) return;
    for (const Change& change : node.changes)
      put(node.durable_names, change);
    for (const Write& write : node.writes)
      put(node.durable_bytes, write);
    node.changes.clear();
    node.writes.clear();
  }

  void name(const std::string& path, std::optional<std::size_t> node) {
    const Change change = {{fs::path(path).filename().string(), node}};
    Node& folder = nodes_[folder_of(path)];
    put(folder.names, change);
    folder.changes.push_back(change);
  }

  std::size_t add(Node node) {
    nodes_.push_back(std::move(node));
    return nodes_.size() - 1;
  }

  [[nodiscard]] std::size_t folder_of(const std::string& path) const {
    std::size_t node = 0;
    for (const fs::path& part : fs::path(path).parent_path())
      node = nodes_[node].names.at(part);
    return node;
  }

  bool is_kept(bool is_name) {
    switch (unsynced_) {
      case Unsynced::lost:
        return false;
      case Unsynced::kept:
        return true;
      case Unsynced::names_kept:
        return is_name;
      case Unsynced::by_coin:
        return random_() % 2 == 0;
    }
    return false;
  }

  void write_folder(const Node& folder, const fs::path& into) const {
    for (const auto& [name, number] : folder.durable_names) {
      const Node& node = nodes_[number];
      if (node.is_folder) {
        ::mkdir((into / name).c_str(), 0700);
        write_folder(node, into / name);
      } else {
        std::ofstream(into / name, std::ios::binary) << node.durable_bytes;
      }
    }
  }

  Unsynced unsynced_;
  Heeded heeded_;
  std::mt19937_64 random_;
  std::vector<Node> nodes_;  // the first one is the folder itself
  std::map<int, std::size_t> opened_;
};

}  // namespace

RecordedDisk::RecordedDisk(fs::path folder) : record_(std::make_unique<Record>()) {
  record_->folder = std::move(folder);
  current = record_.get();
}

RecordedDisk::~RecordedDisk() {
  current = nullptr;
}

std::size_t RecordedDisk::operations() const {
  return record_->operations.size();
}

void RecordedDisk::write_disk(const fs::path& into, std::size_t operations, Unsynced unsynced,
                              std::uint64_t seed, Heeded heeded) const {
  Disk disk(unsynced, seed, heeded);
  for (std::size_t i = 0; i < operations; ++i)
    disk.apply(record_->operations.at(i));
  disk.write_to(into);
}

}  // namespace autotuned

// ThreadSanitizer's runtime calls these before it is ready for code that tells it something.
#define IN_THE_PLACE_OF_THE_SYSTEMS \
  extern "C" __attribute__((visibility("default"), no_sanitize("thread")))

namespace {

using autotuned::current;
using autotuned::Kind;

__attribute__((no_sanitize("thread"))) int as_int(long result) {
  return static_cast<int>(result);
}

}  // namespace

IN_THE_PLACE_OF_THE_SYSTEMS int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  const int file = as_int(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (current == nullptr || file < 0) return file;
  if (const auto name = current->below(path)) {
    current->opened[file] = ++current->files;
    current->operations.push_back(
        {.kind = Kind::open, .path = *name, .file = current->files, .flags = flags});
  }
  return file;
}

IN_THE_PLACE_OF_THE_SYSTEMS int close(int file) {
  if (current != nullptr) current->opened.erase(file);
  return as_int(::syscall(SYS_close, file));
}

IN_THE_PLACE_OF_THE_SYSTEMS ssize_t write(int file, const void* bytes, size_t size) {
  const ssize_t count = ::syscall(SYS_write, file, bytes, size);
  if (current == nullptr || count <= 0) return count;
  if (const auto known = current->file_of(file)) {
    // Behind what it wrote, also where it appends.
    const auto end = static_cast<std::size_t>(::syscall(SYS_lseek, file, 0, SEEK_CUR));
    const auto written = static_cast<std::size_t>(count);
    current->operations.push_back({.kind = Kind::write,
                                   .file = *known,
                                   .bytes = std::string(static_cast<const char*>(bytes), written),
                                   .offset = end - written});
  }
  return count;
}

IN_THE_PLACE_OF_THE_SYSTEMS int ftruncate(int file, off_t size) noexcept {
  const int result = as_int(::syscall(SYS_ftruncate, file, size));
  if (current == nullptr || result != 0) return result;
  if (const auto known = current->file_of(file)) {
    current->operations.push_back(
        {.kind = Kind::truncate, .file = *known, .offset = static_cast<std::size_t>(size)});
  }
  return result;
}

IN_THE_PLACE_OF_THE_SYSTEMS int fsync(int file) {
  const int result = as_int(::syscall(SYS_fsync, file));
  if (current == nullptr || result != 0) return result;
  if (const auto known = current->file_of(file)) {
    current->operations.push_back({.kind = Kind::sync, .file = *known});
  }
  return result;
}

IN_THE_PLACE_OF_THE_SYSTEMS int rename(const char* from, const char* to) noexcept {
  const int result = as_int(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  if (current == nullptr || result != 0) return result;
  const auto name = current->below(from);
  if (const auto target = current->below(to); name && target) {
    current->operations.push_back({.kind = Kind::rename, .path = *name, .to = *target});
  }
  return result;
}

IN_THE_PLACE_OF_THE_SYSTEMS int unlink(const char* path) noexcept {
  const int result = as_int(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
  if (current == nullptr || result != 0) return result;
  if (const auto name = current->below(path)) {
    current->operations.push_back({.kind = Kind::remove, .path = *name});
  }
  return result;
}

IN_THE_PLACE_OF_THE_SYSTEMS int remove(const char* path) noexcept {
  const int result = ::unlink(path);
  if (result == 0 || errno != EISDIR) return result;
  return as_int(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

IN_THE_PLACE_OF_THE_SYSTEMS int mkdir(const char* path, mode_t mode) noexcept {
  const int result = as_int(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (current == nullptr || result != 0) return result;
  if (const auto name = current->below(path)) {
    current->operations.push_back({.kind = Kind::make_folder, .path = *name});
  }
  return result;
}
