// SPDX-License-Identifier: Apache-2.0
// JPEG and PNG files in folders, or named by a table.
#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "base/descriptor.hpp"
#include "base/text.hpp"
#include "trainer/input/datasets/class_names.hpp"
#include "trainer/input/datasets/data_file.hpp"
#include "trainer/input/datasets/dataset_types.hpp"
#include "trainer/input/datasets/pictures/image_index.hpp"
#include "trainer/input/datasets/pictures/mask_files.hpp"
#include "trainer/input/datasets/pictures/picture_dataset.hpp"
#include "trainer/input/datasets/pictures/picture_table.hpp"

namespace autotuned::input {
namespace {

class FileSource final : public PictureSource {
 public:
  explicit FileSource(std::vector<std::string> files) : files_(std::move(files)) {}

  std::int64_t size() const override { return std::ssize(files_); }
  Result<FileStamp> read_front(std::int64_t item, std::size_t most,
                               std::vector<std::uint8_t>& bytes) const override {
    const std::string& path = files_[static_cast<std::size_t>(item)];
    const auto file = open_data_file(path);
    if (!file) return tl::unexpected(file.error());
    const auto size = static_cast<std::size_t>(file->bytes);
    if (size > kMaxPictureBytes) {
      return fail(ErrorKind::invalid,
                  "has " + format_bytes(file->bytes) + ", too much for a picture", path);
    }
    const FileStamp stamp = stamp_of(*file);
    bytes.resize(std::min(size, most));
    const auto count = read_at(*file, 0, bytes, path);
    if (!count) return tl::unexpected(count.error());
    bytes.resize(*count);  // fewer: somebody cuts it just now; the decoder says what is missing
    return stamp;
  }
  std::string name(std::int64_t item) const override {
    return files_[static_cast<std::size_t>(item)];
  }
  void will_need(std::int64_t item) const override {
    // O_NONBLOCK: no waiting for the writer of a named pipe.
    const Descriptor file(
        ::open(files_[static_cast<std::size_t>(item)].c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.is_open()) (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_WILLNEED);
  }

 private:
  std::vector<std::string> files_;
};

// Numbers the folders that hold the files, as `known_classes` has them or in the order of their names.
Result<PictureLabels> labels_from_folders(const std::vector<std::string>& files,
                                          std::int64_t classes,
                                          std::span<const std::string> known_classes) {
  const auto folder_of = [](const std::string& file) {
    return std::filesystem::path(file).parent_path().filename().string();
  };
  std::set<std::string> folders;
  for (const std::string& file : files)
    folders.insert(folder_of(file));
  const auto numbers = number_classes(folders, known_classes, "the folders of the files");
  if (!numbers) return tl::unexpected(numbers.error());
  const auto count = static_cast<std::int64_t>(numbers->size());
  if (count > kMaxClasses || (classes != 0 && classes < count)) {
    return fail(ErrorKind::invalid,
                "the files lie in " + format_count(count) +
                    " folders, which are more classes than " +
                    std::to_string(classes != 0 ? classes : kMaxClasses),
                "data", "set `classes` to the number of folders, or labels: random");
  }
  PictureLabels labels;
  labels.classes = static_cast<int>(classes != 0 ? classes : count);
  labels.names = names_of(*numbers);
  for (const std::string& file : files)
    labels.of_items.push_back(static_cast<std::uint16_t>(numbers->at(folder_of(file))));
  return labels;
}

Result<std::unique_ptr<Dataset>> open_files(const Json& parameters, PictureFormats formats,
                                            std::span<const std::string> known_classes) {
  auto files = file_list(parameters, "files");
  if (!files) return tl::unexpected(files.error());
  const auto classes = bounded_integer(parameters, "classes", 1, kMaxClasses, 0);
  if (!classes) return tl::unexpected(classes.error());
  constexpr std::int64_t kAnySeed = std::numeric_limits<std::int64_t>::max();
  const auto seed = bounded_integer(parameters, "seed", 0, kAnySeed, 1);
  if (!seed) return tl::unexpected(seed.error());
  const Json& kind = member(parameters, "labels");

  PictureLabels labels;
  if (kind.is_null() || kind == "folder_names") {
    auto numbered = labels_from_folders(*files, *classes, known_classes);
    if (!numbered) return tl::unexpected(numbered.error());
    labels = std::move(*numbered);
  } else if (kind == "random") {
    constexpr std::int64_t kDefaultClasses = 10;
    labels.classes = static_cast<int>(*classes != 0 ? *classes : kDefaultClasses);
    labels.seed = static_cast<std::uint64_t>(*seed);
  } else {
    return fail(ErrorKind::invalid, "`labels` is not random or folder_names", "data");
  }
  return open_pictures(parameters, std::make_unique<FileSource>(std::move(*files)),
                       std::move(labels), formats);
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_image_files(const Json& parameters,
                                                  std::span<const std::string> known_classes) {
  return open_files(parameters, PictureFormats::jpeg_and_png, known_classes);
}

Result<std::unique_ptr<Dataset>> open_jpeg_files(const Json& parameters,
                                                 std::span<const std::string> known_classes) {
  return open_files(parameters, PictureFormats::jpeg, known_classes);
}

Result<std::unique_ptr<Dataset>> open_image_index(const Json& parameters,
                                                  std::span<const std::string> known_classes) {
  const auto file = get_string(parameters, "index");
  if (!file) return tl::unexpected(file.error());
  const auto classes = bounded_integer(parameters, "classes", 1, kMaxClasses, 0);
  if (!classes) return tl::unexpected(classes.error());
  auto index = read_image_index(*file, *classes, known_classes);
  if (!index) return tl::unexpected(index.error());
  return open_pictures(parameters, std::make_unique<FileSource>(std::move(index->files)),
                       {.of_items = std::move(index->labels),
                        .classes = index->classes,
                        .names = std::move(index->names)},
                       PictureFormats::jpeg_and_png);
}

namespace {

Result<std::unique_ptr<Dataset>> open_table(const Json& parameters, Result<PictureTable> table,
                                            TargetKind kind) {
  if (!table) return tl::unexpected(table.error());
  return open_pictures(parameters, std::make_unique<FileSource>(std::move(table->files)),
                       {.of_items = {},
                        .classes = table->width,
                        .names = std::move(table->names),
                        .target = {kind, table->width},
                        .values = std::move(table->values),
                        .flags = std::move(table->flags)},
                       PictureFormats::jpeg_and_png);
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_image_targets(const Json& parameters,
                                                    std::span<const std::string> known_names) {
  const auto file = get_string(parameters, "index");
  if (!file) return tl::unexpected(file.error());
  return open_table(parameters, read_number_table(*file, known_names), TargetKind::numbers);
}

Result<std::unique_ptr<Dataset>> open_image_tags(const Json& parameters,
                                                 std::span<const std::string> known_names) {
  const auto file = get_string(parameters, "index");
  if (!file) return tl::unexpected(file.error());
  return open_table(parameters, read_tag_table(*file, known_names), TargetKind::tags);
}

Result<std::unique_ptr<Dataset>> open_image_masks(const Json& parameters) {
  auto pictures = file_list(parameters, "files");
  if (!pictures) return tl::unexpected(pictures.error());
  const auto masks = file_list(parameters, "masks");
  if (!masks) return tl::unexpected(masks.error());
  auto classes = mask_classes_from(parameters);
  if (!classes) return tl::unexpected(classes.error());
  auto matched = masks_of(*pictures, *masks);
  if (!matched) return tl::unexpected(matched.error());
  PictureLabels labels{.of_items = {},
                       .classes = classes->count,
                       .names = classes->names,
                       .target = {TargetKind::class_mask, 1}};
  auto source = std::make_unique<FileSource>(*matched);
  labels.masks = std::make_shared<MaskFiles>(std::move(source), std::move(*matched), *pictures,
                                             std::move(*classes));
  return open_pictures(parameters, std::make_unique<FileSource>(std::move(*pictures)),
                       std::move(labels), PictureFormats::jpeg_and_png);
}

}  // namespace autotuned::input
