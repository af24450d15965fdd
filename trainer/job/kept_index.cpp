// SPDX-License-Identifier: Apache-2.0
// The part of KeptSamples about the index of JPEG files: which files are in it, and where it is stored between runs.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/digest.hpp"
#include "base/user_folders.hpp"
#include "trainer/input/jpeg_index/jpeg_index_folder.hpp"
#include "trainer/job/kept_samples.hpp"

namespace autotuned::trainer {
namespace {

namespace fs = std::filesystem;

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

Result<input::JpegIndex*> KeptSamples::index_for(const input::Pipeline& pipeline,
                                                 const input::Dataset& data) {
  if (!pipeline.is_indexed()) return nullptr;
  if (index_.index != nullptr) return index_.index.get();
  auto index = input::JpegIndex::create(data.stored().items, bytes_left(input::CachePlace::memory));
  if (!index) return tl::unexpected(index.error());
  index_.index = std::move(*index);
  const fs::path home = cache_home();
  if (home.empty()) return index_.index.get();
  index_.key = key_of(data);
  index_.file = home / "autotuned" / "jpeg-index" / index_.key;
  // An index that cannot be read is made again, and replaces the file.
  if (index_.index->load(index_.file, index_.key)) input::mark_used(index_.file);
  return index_.index.get();
}

void KeptSamples::compact_index(Feed& feed) {
  if (index_.index == nullptr || !index_.index->is_worth_compacting()) return;
  feed.pause();
  index_.index->compact();
  feed.resume();
}

std::optional<Error> KeptSamples::save_index() {
  if (index_.index == nullptr || index_.file.empty() || !index_.index->has_news())
    return std::nullopt;
  auto saved = make_folders(index_.file.parent_path());
  if (saved) saved = index_.index->save(index_.file, index_.key);
  if (saved) prune_others(index_.file);
  if (saved || index_.has_warned) return std::nullopt;
  index_.has_warned = true;
  Error warning = std::move(saved.error());
  warning.what =
      "the index of JPEG files is not kept, and the next run makes it anew: " + warning.what;
  return warning;
}

}  // namespace autotuned::trainer
