// SPDX-License-Identifier: Apache-2.0
// Finds out what data a folder holds, from names and the headers of a few files. Only masks are decoded, and no trainer
// is started.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/guide/table_peek.hpp"

namespace autotuned::daemon {

enum class Samples {
  none,      // nothing that a recipe can train on
  pictures,  // JPEG and PNG files, to be decoded: 3 channels of bytes
  arrays,    // every sample has the same shape already
  tokens,    // texts and tokens, for a language model
};

struct DataFolder {
  Samples samples = Samples::none;
  std::string found;  // for people: "1,200 pictures in 12 classes"
  // The parameters of `data` in a recipe, without braces: "type: idx, images: a, labels: b". Paths are relative to
  // the folder `from` of look_at_data(), or absolute.
  std::string data;
  std::string test_data;   // the same of data that are there for tests; empty: none
  std::int64_t count = 0;  // samples; 0: not known
  TargetKind targets = TargetKind::classes;
  std::int64_t classes = 10;              // outputs of the model: classes, numbers or tags
  std::vector<std::string> columns = {};  // names of the numbers, or of the tags; empty: not known
  int shorter_side = 0;            // of pictures, in pixels: the median of a few; 0: not known
  bool are_bytes = true;           // of arrays: bytes, which become floats
  bool has_masks = false;          // of pictures: a class for every pixel
  std::string masks_text = {};     // numbers in the masks, and in how many; empty: none was read
  bool has_labels = true;          // false: labels are drawn at random, and only the speed matters
  std::vector<std::string> notes;  // what the folder holds but the recipe leaves out, and why
};

// Looks at no more than `most_names` names in all, and at tables and labels in proportion. Leaves out folders that
// `predict` has made for its masks, unless `folder` itself is one. Errors are those of reading
// `folder` itself; unreadable files and folders in it are left out.
[[nodiscard]] Result<DataFolder> look_at_data(const std::filesystem::path& folder,
                                              const std::filesystem::path& from,
                                              std::int64_t most_names = 1'000'000);

// `text` as a value of YAML, quoted where that is needed.
[[nodiscard]] std::string yaml_text(const std::string& text);

}  // namespace autotuned::daemon
