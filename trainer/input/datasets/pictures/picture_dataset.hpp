// SPDX-License-Identifier: Apache-2.0
// Data sets of picture files with labels, in folders or in other files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::input {

// The picture files of a data set. Const, any number of threads at once.
class PictureSource {
 public:
  PictureSource() = default;
  PictureSource(const PictureSource&) = delete;
  PictureSource& operator=(const PictureSource&) = delete;
  virtual ~PictureSource() = default;

  [[nodiscard]] virtual std::int64_t size() const = 0;  // at least 1
  // At most `most` bytes from the front of a file; `bytes` is resized to them. Returns the size of the whole file and
  // its modification time.
  // REQUIRES (here and below): 0 <= item < size().
  [[nodiscard]] virtual Result<FileStamp> read_front(std::int64_t item, std::size_t most,
                                                     std::vector<std::uint8_t>& bytes) const = 0;
  // Dataset::will_need().
  virtual void will_need(std::int64_t item) const = 0;
  [[nodiscard]] virtual std::string name(std::int64_t item) const = 0;
};

class MaskFiles;

struct PictureLabels {
  std::vector<std::uint16_t> of_items;  // empty: random
  int classes = 1;
  std::uint64_t seed = 1;
  std::vector<std::string> names = {};  // of the classes; empty: the data have only numbers
  // For numbers and tags: target.width values or flags for each item; `classes` is the same number.
  TargetType target = {};
  std::vector<float> values = {};
  std::vector<std::uint8_t> flags = {};
  std::shared_ptr<const MaskFiles> masks = {};  // of class masks
};

enum class PictureFormats { jpeg, jpeg_and_png };

inline constexpr std::size_t kMaxPictureBytes = std::size_t{1} << 30U;

// Examines the first 20,000 files. Parameters: repeat_to, the number of samples, repeating the files (default: each
// once); on_error, `stop` (default) or `skip`.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_pictures(const Json& parameters,
                                                             std::unique_ptr<PictureSource> source,
                                                             PictureLabels labels,
                                                             PictureFormats formats);

}  // namespace autotuned::input
