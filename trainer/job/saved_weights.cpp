// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/saved_weights.hpp"

#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "trainer/state/training_length.hpp"

namespace autotuned::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEpoch = "model_epoch_";
constexpr std::string_view kStep = "model_step_";
constexpr std::string_view kAverages = "_ema.pt";
// More than a recipe takes; within them steps can be counted without overflow.
constexpr std::int64_t kMaxEpochs = 1'000'000;
constexpr std::int64_t kMaxSteps = 1'000'000'000'000;

// The number between `begin` and the ending of a name; nothing if it has another form, or is above `most`.
std::optional<std::int64_t> number_in(std::string_view name, std::string_view begin,
                                      std::int64_t most) {
  if (!name.starts_with(begin)) return std::nullopt;
  name.remove_prefix(begin.size());
  for (const std::string_view ending : {kAverages, std::string_view(".pt")}) {
    if (!name.ends_with(ending)) continue;
    name.remove_suffix(ending.size());
    std::int64_t number = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data(), end, number);
    const bool is_whole = parsed.ec == std::errc() && parsed.ptr == end;
    return is_whole && number > 0 && number <= most ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

SavedWeights::SavedWeights(const recipes::Recipe& recipe, std::int64_t batch_size,
                           std::int64_t steps_per_epoch)
    : epochs_(recipe.save_every_epochs.value_or(0)),
      steps_per_epoch_(steps_per_epoch),
      kept_(recipe.kept_saves) {
  if (!recipe.save_every_steps) return;
  const std::int64_t samples = *recipe.save_every_steps * recipe.train.batch_size;
  steps_ = batches_of(samples, batch_size);
}

std::vector<std::string> SavedWeights::due_after(std::int64_t steps) const {
  std::vector<std::string> names;
  const std::int64_t epoch = steps / steps_per_epoch_;
  if (epochs_ > 0 && steps % steps_per_epoch_ == 0 && epoch % epochs_ == 0) {
    names.push_back(std::string(kEpoch) + std::to_string(epoch));
  }
  if (steps_ > 0 && steps % steps_ == 0) {
    names.push_back(std::string(kStep) + std::to_string(steps));
  }
  return names;
}

std::int64_t SavedWeights::steps_to_next(std::int64_t steps) const {
  if (steps_ == 0) return std::numeric_limits<std::int64_t>::max();
  return steps_ - steps % steps_;
}

void SavedWeights::remove_old(const fs::path& folder) const {
  // If two files have the same step, that of the epoch counts as older.
  using Place = std::pair<std::int64_t, bool>;
  const auto place_of = [this](std::string_view name) -> std::optional<Place> {
    if (const auto epoch = number_in(name, kEpoch, kMaxEpochs))
      return Place{*epoch * steps_per_epoch_, false};
    if (const auto step = number_in(name, kStep, kMaxSteps)) return Place{*step, true};
    return std::nullopt;
  };
  std::vector<std::pair<Place, fs::path>> files;
  std::map<Place, fs::file_time_type> written;  // a model and its averages belong together
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const auto place = place_of(name);
    if (!place) continue;
    files.emplace_back(*place, entry->path());
    std::error_code ignored;
    const fs::file_time_type time = entry->last_write_time(ignored);
    if (name.ends_with(kAverages)) {
      written.try_emplace(*place, time);
    } else {
      written[*place] = time;
    }
  }
  // Steps change their size when a training goes on with other batches: the times tell what is old.
  std::set<std::pair<fs::file_time_type, Place>> ages;
  for (const auto& [place, time] : written)
    ages.emplace(time, place);
  while (static_cast<std::int64_t>(ages.size()) > kept_)
    ages.erase(ages.begin());
  for (const auto& [place, file] : files) {
    std::error_code ignored;
    if (!ages.contains({written.at(place), place})) fs::remove(file, ignored);
  }
}

}  // namespace autotuned::trainer
