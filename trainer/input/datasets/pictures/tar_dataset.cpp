// SPDX-License-Identifier: Apache-2.0
// Pictures and labels in tar files as WebDataset packs them: KEY.jpg beside KEY.cls. Headers are read once; samples are
// then read by position, so that their order does not depend on the packing.
#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "trainer/input/datasets/data_file.hpp"
#include "trainer/input/datasets/dataset_types.hpp"
#include "trainer/input/datasets/pictures/picture_dataset.hpp"
#include "trainer/input/datasets/pictures/tar_index.hpp"

namespace autotuned::input {
namespace {

struct Shard {
  std::string path;
  DataFile file;
};

struct Picture {
  std::size_t shard = 0;
  TarMember member;
};

class TarSource final : public PictureSource {
 public:
  TarSource(std::vector<Shard> shards, std::vector<Picture> pictures)
      : shards_(std::move(shards)), pictures_(std::move(pictures)) {}

  std::int64_t size() const override { return std::ssize(pictures_); }
  Result<FileStamp> read_front(std::int64_t item, std::size_t most,
                               std::vector<std::uint8_t>& bytes) const override {
    const Picture& picture = pictures_[static_cast<std::size_t>(item)];
    const Shard& shard = shards_[picture.shard];
    FileStamp stamp = stamp_of(shard.file);
    stamp.bytes = picture.member.bytes;
    bytes.resize(std::min(static_cast<std::size_t>(picture.member.bytes), most));
    if (auto read = read_all_at(shard.file, picture.member.begin, bytes, shard.path); !read) {
      return tl::unexpected(read.error());
    }
    return stamp;
  }
  void will_need(std::int64_t item) const override {
    const Picture& picture = pictures_[static_cast<std::size_t>(item)];
    (void)::posix_fadvise(shards_[picture.shard].file.descriptor.get(), picture.member.begin,
                          picture.member.bytes, POSIX_FADV_WILLNEED);
  }
  std::string name(std::int64_t item) const override {
    const Picture& picture = pictures_[static_cast<std::size_t>(item)];
    return shards_[picture.shard].path + ", " + shown_text(picture.member.name);
  }

 private:
  std::vector<Shard> shards_;
  std::vector<Picture> pictures_;
};

// The parts of "FOLDERS/KEY.EXTENSION": the name ends at its first point. Nothing where there is none.
struct KeyAndExtension {
  std::string_view key;
  std::string extension;  // in small letters
};
std::optional<KeyAndExtension> key_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t point = name.find('.', base);
  if (point == std::string_view::npos || point == base) return std::nullopt;
  KeyAndExtension parts{name.substr(0, point), std::string(name.substr(point + 1))};
  for (char& letter : parts.extension)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return parts;
}

bool is_picture(std::string_view extension) {
  return extension == "jpg" || extension == "jpeg" || extension == "png";
}

// An integer, and spaces around it.
Result<std::int64_t> read_label(const Shard& shard, const TarMember& member) {
  constexpr std::size_t kMaxLabelBytes = 64;
  std::vector<std::uint8_t> bytes(std::min(static_cast<std::size_t>(member.bytes), kMaxLabelBytes));
  if (auto read = read_all_at(shard.file, member.begin, bytes, shard.path); !read) {
    return tl::unexpected(read.error());
  }
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto is_space = [](char letter) {
    return letter == ' ' || letter == '\n' || letter == '\r';
  };
  while (!text.empty() && is_space(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_space(text.back()))
    text.remove_suffix(1);
  std::int64_t label = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), label);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return fail(ErrorKind::invalid, "holds `" + shown_text(text) + "`, which is not a label",
                shard.path + ", " + shown_text(member.name), "write an integer of at least 0");
  }
  return label;
}

// Puts the members of shards together to samples.
class Packer {
 public:
  explicit Packer(std::int64_t classes) : classes_(classes) {}

  Result<void> add(Shard shard) {
    auto members = read_tar_index(shard.file, shard.path);
    if (!members) return tl::unexpected(members.error());
    shards_.push_back(std::move(shard));
    std::string key;
    for (TarMember& member : *members) {
      auto parts = key_of(member.name);
      if (!parts) continue;
      if (parts->key != key) {
        if (auto ended = end_sample(key); !ended) return ended;
        key = parts->key;
      }
      std::optional<TarMember>* const place = is_picture(parts->extension) ? &picture_
                                              : parts->extension == "cls"  ? &label_
                                                                           : nullptr;
      if (place == nullptr) continue;
      if (*place) return refuse(key, "has two files `." + shown_text(parts->extension) + "`");
      *place = std::move(member);
    }
    return end_sample(key);
  }

  [[nodiscard]] bool is_empty() const { return pictures_.empty(); }
  [[nodiscard]] PictureLabels take_labels() {
    PictureLabels labels{.of_items = std::move(labels_)};
    labels.classes = static_cast<int>(classes_ != 0 ? classes_ : highest_ + 1);
    return labels;
  }
  [[nodiscard]] std::unique_ptr<TarSource> take_source() {
    return std::make_unique<TarSource>(std::move(shards_), std::move(pictures_));
  }

 private:
  tl::unexpected<Error> refuse(const std::string& key, std::string what) const {
    return fail(ErrorKind::invalid, std::move(what), shards_.back().path + ", " + shown_text(key),
                "pack one picture (.jpg, .jpeg or .png) and one label (.cls) next to each other");
  }

  Result<void> end_sample(const std::string& key) {
    const auto picture = std::exchange(picture_, std::nullopt);
    const auto label_file = std::exchange(label_, std::nullopt);
    if (!picture && !label_file) return {};  // of something else
    if (!picture) return refuse(key, "has a label, but no picture");
    if (!label_file) return refuse(key, "has a picture, but no label");
    if (picture->bytes > static_cast<std::int64_t>(kMaxPictureBytes)) {
      return refuse(key, "has " + format_bytes(picture->bytes) + ", too much for a picture");
    }
    const auto label = read_label(shards_.back(), *label_file);
    if (!label) return tl::unexpected(label.error());
    const std::int64_t most = classes_ != 0 ? classes_ : kMaxClasses;
    if (*label < 0 || *label >= most) {
      return refuse(key, "has the label " + std::to_string(*label) + ", not one from 0 to " +
                             std::to_string(most - 1));
    }
    highest_ = std::max(highest_, *label);
    labels_.push_back(static_cast<std::uint16_t>(*label));
    pictures_.push_back({shards_.size() - 1, *picture});
    return {};
  }

  std::int64_t classes_;  // 0: as many as there are
  std::vector<Shard> shards_;
  std::vector<Picture> pictures_;
  std::vector<std::uint16_t> labels_;
  std::int64_t highest_ = 0;
  // The parts of the present sample.
  std::optional<TarMember> picture_;
  std::optional<TarMember> label_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> open_tar(const Json& parameters) {
  const auto paths = file_list(parameters, "files");
  if (!paths) return tl::unexpected(paths.error());
  const auto classes = bounded_integer(parameters, "classes", 1, kMaxClasses, 0);
  if (!classes) return tl::unexpected(classes.error());
  Packer packer(*classes);
  try {
    for (const std::string& path : *paths) {
      auto file = open_data_file(path);
      if (!file) return tl::unexpected(file.error());
      auto added = packer.add({path, std::move(*file)});
      if (!added) return tl::unexpected(added.error());
    }
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory for the names of the samples", "data",
                "give fewer files");
  }
  if (packer.is_empty()) {
    return fail(ErrorKind::invalid, "holds no samples", paths->front(),
                "pack pictures and labels, such as 0001.jpg and 0001.cls");
  }
  auto labels = packer.take_labels();
  return open_pictures(parameters, packer.take_source(), std::move(labels),
                       PictureFormats::jpeg_and_png);
}

}  // namespace autotuned::input
