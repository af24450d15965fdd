// SPDX-License-Identifier: Apache-2.0
// The JPEG index of a job, and its file between runs.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "base/user_folders.hpp"
#include "trainer/input/jpeg_index/jpeg_index_folder.hpp"
#include "trainer/job/job_state.hpp"

namespace autotuned::trainer {
namespace {

namespace fs = std::filesystem;

// How many files are scanned to estimate the size of the whole index.
constexpr std::int64_t kProbedFiles = 8;

// $XDG_CACHE_HOME, else ~/.cache; empty where neither is known.
fs::path cache_home() {
  const auto folder = [](const char* name) {
    const char* const value = std::getenv(name);
    const fs::path path = value != nullptr ? value : "";
    return path.is_absolute() ? path : fs::path();
  };
  const fs::path given = folder("XDG_CACHE_HOME");
  if (!given.empty()) return given;
  const fs::path home = folder("HOME");
  return home.empty() ? fs::path() : home / ".cache";
}

// Tells data from others by the names of their files.
std::string key_of(const input::Dataset& data) {
  Sha256 names;
  for (std::int64_t item = 0; item < data.stored().items; ++item) {
    const std::string name = data.name(item);
    names.update(std::string_view(name.c_str(), name.size() + 1));
  }
  return names.finish();
}

Result<void> make_folders(const fs::path& folder) {
  constexpr const char* kRemedy = "remove it, or set XDG_CACHE_HOME";
  std::error_code ignored;
  fs::create_directories(folder.parent_path().parent_path(), ignored);
  auto made = make_private_folder(folder.parent_path(), "the folder of the cache", kRemedy);
  return made ? make_private_folder(folder, "the folder of indices", kRemedy) : made;
}

// Nobody else looks after indices of data that are gone.
void prune_others(const fs::path& file) {
  std::error_code error;
  const fs::space_info space = fs::space(file.parent_path(), error);
  if (error) return;
  input::prune_indices(file.parent_path(), file,
                       {.now = std::chrono::system_clock::now(),
                        .free_bytes = static_cast<std::int64_t>(space.available)});
}

}  // namespace

Result<input::JpegIndex*> Job::State::index_for(const input::Pipeline& pipeline) {
  if (!pipeline.is_indexed()) return nullptr;
  if (index_.index != nullptr) return index_.index.get();
  constexpr auto kMemory = input::CachePlace::memory;
  const std::int64_t room =
      std::max<std::int64_t>(cache_bytes_allowed(kMemory) - kept_bytes(kMemory), 0);
  auto index = input::JpegIndex::create(train_data_->stored().items, room);
  if (!index) return tl::unexpected(index.error());
  index_.index = std::move(*index);
  const fs::path home = cache_home();
  if (home.empty()) return index_.index.get();
  index_.key = key_of(*train_data_);
  index_.file = home / "autotuned" / "jpeg-index" / index_.key;
  // An index that cannot be read is made again, and replaces the file.
  if (index_.index->load(index_.file, index_.key)) input::mark_used(index_.file);
  return index_.index.get();
}

void Job::State::compact_index() {
  if (index_.index == nullptr || !index_.index->is_worth_compacting()) return;
  feed_->pause();
  index_.index->compact();
  feed_->resume();
}

// Without a file the next run makes the index again, so this is a warning, given once, and no error.
void Job::State::save_index() {
  if (index_.index == nullptr || index_.file.empty() || !index_.index->has_news()) return;
  auto saved = make_folders(index_.file.parent_path());
  if (saved) saved = index_.index->save(index_.file, index_.key);
  if (saved) return prune_others(index_.file);
  if (index_.has_warned) return;
  index_.has_warned = true;
  saved.error().what =
      "the index of JPEG files is not kept, and the next run makes it anew: " + saved.error().what;
  warnings_.push_back(std::move(saved.error()));
}

void Job::State::describe_index() {
  const auto pipeline =
      pipeline_of(recipe_, *train_data_, {.decodes_crop = true, .indexes_jpegs = true});
  if (!pipeline || !pipeline->is_indexed()) return;
  input::JpegScanner scanner;
  std::vector<std::uint8_t> file;
  const std::int64_t items = train_data_->stored().items;
  const std::int64_t probed = std::min(items, kProbedFiles);
  std::int64_t with_points = 0;
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < probed; ++i) {
    if (!train_data_->read_encoded(i * items / probed, file)) continue;
    const auto points = scanner.scan(file);
    if (points.empty()) continue;
    ++with_points;
    bytes += static_cast<std::int64_t>(points.size_bytes());
  }
  // If most files have no points, an index gains little.
  if (2 * with_points >= probed) facts_.jpeg_index_bytes = bytes * items / probed;
}

}  // namespace autotuned::trainer
