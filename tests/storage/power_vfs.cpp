// SPDX-License-Identifier: Apache-2.0
#include "tests/storage/power_vfs.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace autotuned::storage {
namespace {

constexpr std::size_t kSectorBytes = 512;

struct PendingWrite {
  std::size_t offset = 0;
  std::string bytes;
  std::optional<std::size_t> truncate_to;  // instead of writing
};

// What the disk knows of a file.
struct Shadow {
  std::string synced;
  bool is_in_folder = true;  // else a power loss may take the whole file away
  bool is_deleted = false;   // but the deletion has not reached the disk
  std::vector<PendingWrite> pending;
};

struct State {
  sqlite3_vfs* real = nullptr;
  sqlite3_vfs vfs{};
  Fault fault = Fault::power_loss;
  std::uint64_t fault_at = 0;
  std::uint64_t operations = 0;
  std::map<std::string, std::shared_ptr<Shadow>> files;
};

State& state() {
  static State the_state;
  return the_state;
}

// SQLite allocates szOsFile bytes: this, and behind it the real VFS's own file.
struct PowerFile {
  sqlite3_file base;
  std::shared_ptr<Shadow>* shadow;  // null for temporary files
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

PowerFile* power(sqlite3_file* file) {
  return reinterpret_cast<PowerFile*>(file);
}
sqlite3_file* real(sqlite3_file* file) {
  return power(file)->real();
}

bool is_off() {
  return state().fault == Fault::power_loss && state().fault_at != 0 &&
         state().operations >= state().fault_at;
}

// Counts an operation that changes a file. SQLITE_OK, or the code with which it must fail.
int next_operation(bool is_write) {
  State& now = state();
  if (is_off()) return SQLITE_IOERR;
  ++now.operations;
  if (now.fault_at == 0 || now.operations < now.fault_at) return SQLITE_OK;
  switch (now.fault) {
    case Fault::power_loss:
      return SQLITE_IOERR;
    case Fault::disk_full:
      return is_write ? SQLITE_FULL : SQLITE_OK;
    case Fault::write_error:
      return now.operations == now.fault_at ? SQLITE_IOERR_WRITE : SQLITE_OK;
  }
  return SQLITE_OK;
}

void apply(std::string& content, const PendingWrite& write) {
  if (write.truncate_to) {
    content.resize(*write.truncate_to);
    return;
  }
  content.resize(std::max(content.size(), write.offset + write.bytes.size()));
  content.replace(write.offset, write.bytes.size(), write.bytes);
}

int x_close(sqlite3_file* file) {
  delete power(file)->shadow;
  return real(file)->pMethods->xClose(real(file));
}

int x_read(sqlite3_file* file, void* into, int size, sqlite3_int64 offset) {
  return real(file)->pMethods->xRead(real(file), into, size, offset);
}

int x_write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  if (const int code = next_operation(true); code != SQLITE_OK) return code;
  if (power(file)->shadow != nullptr) {
    (*power(file)->shadow)
        ->pending.push_back(
            {static_cast<std::size_t>(offset),
             std::string(static_cast<const char*>(from), static_cast<std::size_t>(size)),
             {}});
  }
  return real(file)->pMethods->xWrite(real(file), from, size, offset);
}

int x_truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (const int code = next_operation(false); code != SQLITE_OK) return code;
  if (power(file)->shadow != nullptr) {
    (*power(file)->shadow)->pending.push_back({0, {}, static_cast<std::size_t>(size)});
  }
  return real(file)->pMethods->xTruncate(real(file), size);
}

// SQLite syncs the folder after the first sync of a new journal or log (unixSync in os_unix.c).
void sync_folder() {
  std::erase_if(state().files, [](const auto& file) { return file.second->is_deleted; });
  for (const auto& [name, shadow] : state().files)
    shadow->is_in_folder = true;
}

// The real file is not synced: the machine stays on, and the test stays fast.
int x_sync(sqlite3_file* file, int) {
  if (const int code = next_operation(false); code != SQLITE_OK) return code;
  if (power(file)->shadow != nullptr) {
    Shadow& shadow = **power(file)->shadow;
    for (const PendingWrite& write : shadow.pending)
      apply(shadow.synced, write);
    shadow.pending.clear();
    if (!shadow.is_in_folder) sync_folder();
  }
  return SQLITE_OK;
}

int x_file_size(sqlite3_file* file, sqlite3_int64* size) {
  return real(file)->pMethods->xFileSize(real(file), size);
}
int x_lock(sqlite3_file* file, int level) {
  return real(file)->pMethods->xLock(real(file), level);
}
int x_unlock(sqlite3_file* file, int level) {
  return real(file)->pMethods->xUnlock(real(file), level);
}
int x_check_reserved(sqlite3_file* file, int* is_reserved) {
  return real(file)->pMethods->xCheckReservedLock(real(file), is_reserved);
}
int x_file_control(sqlite3_file* file, int operation, void* argument) {
  return real(file)->pMethods->xFileControl(real(file), operation, argument);
}
int x_sector_size(sqlite3_file* file) {
  return real(file)->pMethods->xSectorSize(real(file));
}
int x_device(sqlite3_file* file) {
  return real(file)->pMethods->xDeviceCharacteristics(real(file));
}
int x_shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** into) {
  return real(file)->pMethods->xShmMap(real(file), page, size, extend, into);
}
int x_shm_lock(sqlite3_file* file, int offset, int count, int flags) {
  return real(file)->pMethods->xShmLock(real(file), offset, count, flags);
}
void x_shm_barrier(sqlite3_file* file) {
  real(file)->pMethods->xShmBarrier(real(file));
}
int x_shm_unmap(sqlite3_file* file, int is_deleted) {
  return real(file)->pMethods->xShmUnmap(real(file), is_deleted);
}

const sqlite3_io_methods kMethods = {2,           x_close,          x_read,         x_write,
                                     x_truncate,  x_sync,           x_file_size,    x_lock,
                                     x_unlock,    x_check_reserved, x_file_control, x_sector_size,
                                     x_device,    x_shm_map,        x_shm_lock,     x_shm_barrier,
                                     x_shm_unmap, nullptr,          nullptr};

std::string content_of(const std::string& name) {
  std::ifstream in(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::shared_ptr<Shadow> shadow_of(const std::string& name, bool is_new) {
  std::shared_ptr<Shadow>& known = state().files[name];
  if (!known || known->is_deleted) {
    known = std::make_shared<Shadow>();
    known->synced = is_new ? std::string() : content_of(name);
    known->is_in_folder = !is_new;
  }
  return known;
}

int x_open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* flags_out) {
  PowerFile* opened = power(file);
  opened->base.pMethods = nullptr;
  opened->shadow = nullptr;
  State& now = state();
  int exists = 0;
  if (name != nullptr) now.real->xAccess(now.real, name, SQLITE_ACCESS_EXISTS, &exists);
  if (is_off() && exists == 0) return SQLITE_CANTOPEN;
  const int code = now.real->xOpen(now.real, name, opened->real(), flags, flags_out);
  if (opened->real()->pMethods == nullptr) return code;
  if (code != SQLITE_OK) {
    opened->real()->pMethods->xClose(opened->real());
    return code;
  }
  if (name != nullptr) opened->shadow = new std::shared_ptr<Shadow>(shadow_of(name, exists == 0));
  opened->base.pMethods = &kMethods;
  return SQLITE_OK;
}

int x_delete(sqlite3_vfs*, const char* name, int sync_folder) {
  if (const int code = next_operation(false); code != SQLITE_OK) return code;
  State& now = state();
  if (sync_folder != 0) {
    now.files.erase(name);
  } else if (const auto found = now.files.find(name); found != now.files.end()) {
    found->second->is_deleted = true;
  }
  return now.real->xDelete(now.real, name, 0);
}

}  // namespace

PowerVfs::PowerVfs() {
  State& now = state();
  assert(now.real == nullptr);
  now.real = sqlite3_vfs_find(nullptr);
  now.vfs = *now.real;
  now.vfs.pNext = nullptr;
  now.vfs.zName = "power";
  now.vfs.szOsFile = static_cast<int>(sizeof(PowerFile)) + now.real->szOsFile;
  now.vfs.xOpen = x_open;
  now.vfs.xDelete = x_delete;
  sqlite3_vfs_register(&now.vfs, 1);
}

PowerVfs::~PowerVfs() {
  sqlite3_vfs_unregister(&state().vfs);
  sqlite3_vfs_register(state().real, 1);
  state() = {};
}

void PowerVfs::arm(Fault fault, std::uint64_t operation) {
  state().fault = fault;
  state().fault_at = operation;
  state().operations = 0;
  state().files.clear();
}

std::uint64_t PowerVfs::operations() const {
  return state().operations;
}

void PowerVfs::write_disk(const std::filesystem::path& folder, std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  const auto coin = [&] { return (random() & 1U) != 0; };
  for (const auto& [name, shadow] : state().files) {
    if ((shadow->is_deleted || !shadow->is_in_folder) && coin()) continue;
    std::string content = shadow->synced;
    for (const PendingWrite& write : shadow->pending) {
      if (coin()) continue;
      if (write.truncate_to || coin()) {
        apply(content, write);
        continue;
      }
      // Torn: sector by sector.
      for (std::size_t at = 0; at < write.bytes.size();) {
        const std::size_t to_border = kSectorBytes - (write.offset + at) % kSectorBytes;
        const std::size_t size = std::min(to_border, write.bytes.size() - at);
        if (coin()) apply(content, {write.offset + at, write.bytes.substr(at, size), {}});
        at += size;
      }
    }
    std::ofstream out(folder / std::filesystem::path(name).filename(), std::ios::binary);
    out << content;
  }
}

}  // namespace autotuned::storage
