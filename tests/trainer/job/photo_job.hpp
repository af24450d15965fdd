// SPDX-License-Identifier: Apache-2.0
// A small job that trains on crops of JPEG files.
#pragma once

#include <filesystem>
#include <string>

#include "tests/base/environment_variable.hpp"
#include "tests/places.hpp"
#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {

// Where a job keeps what is of use to the next one.
class CacheHome {
 public:
  explicit CacheHome(const std::filesystem::path& folder)
      : variable_("XDG_CACHE_HOME", folder.c_str()) {}

 private:
  EnvironmentVariable variable_;
};

inline recipes::Recipe cropped_photos(const Folder& folder) {
  std::filesystem::create_directory(folder / "photos");
  const auto fixtures = tests::source_folder() / "tests/trainer/input/data";
  for (const char* kind : {"420", "422", "444", "grey"}) {
    const std::string name = std::string(kind) + "_37x51.jpg";
    std::filesystem::copy_file(fixtures / name, folder / ("photos/" + name));
  }
  recipes::Recipe recipe = small_recipe();
  recipe.evaluation.reset();
  recipe.data = {"jpeg_files",
                 {{"files", (folder / "photos/*.jpg").string()},
                  {"repeat_to", 200},
                  {"labels", "random"},
                  {"classes", 4}}};
  recipe.input = {{"decode_jpeg", Json::object()},
                  {"random_crop", {{"size", 8}}},
                  {"to_float", Json::object()}};
  return recipe;
}

}  // namespace autotuned::trainer
