// SPDX-License-Identifier: Apache-2.0
// JPEG and PNG files, read whenever they are needed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "base/descriptor.hpp"
#include "base/file_pattern.hpp"
#include "base/text.hpp"
#include "trainer/input/dataset_types.hpp"
#include "trainer/input/image_index.hpp"
#include "trainer/input/picture_decoder.hpp"
#include "trainer/input/random.hpp"

namespace autotuned::input {
namespace {

// So many files are looked at before training; it takes some tens of microseconds each.
constexpr std::size_t kMostInspected = 20'000;
// Where nearly every header ends, notes of the camera included.
constexpr std::size_t kHeaderBytes = std::size_t{64} << 10U;
constexpr std::size_t kMostFileBytes = std::size_t{1} << 30U;

// At most `most` bytes from the front of a file; `bytes` takes their number. Gives the file's size.
Result<std::int64_t> read_front(const std::string& file, std::size_t most,
                                std::vector<std::uint8_t>& bytes) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.is_open()) return tl::unexpected(system_error(errno, "cannot open", file));
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) {
    return tl::unexpected(system_error(errno, "cannot read", file));
  }
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, "is not a regular file", file);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > kMostFileBytes) {
    return fail(ErrorKind::invalid,
                "has " + format_bytes(status.st_size) + ", too much for a picture", file);
  }
  bytes.resize(std::min(size, most));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(descriptor.get(), bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::unexpected(system_error(errno, "cannot read", file));
    if (count == 0) break;  // somebody cuts it just now; the decoder says what is missing
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return status.st_size;
}

struct Looked {
  SampleShape shape;
  std::int64_t bytes = 0;
};

template <typename Decoder>
Result<Looked> look_at(const std::string& file, Decoder& decoder,
                       std::vector<std::uint8_t>& bytes) {
  auto read = read_front(file, kHeaderBytes, bytes);
  if (!read) return tl::unexpected(read.error());
  auto shape = decoder.begin(bytes);
  if (!shape && bytes.size() == kHeaderBytes) {
    read = read_front(file, kMostFileBytes, bytes);
    if (!read) return tl::unexpected(read.error());
    shape = decoder.begin(bytes);
  }
  if (!shape) {
    shape.error().where = file;
    return tl::unexpected(shape.error());
  }
  return Looked{*shape, *read};
}

struct LookedAt {
  SampleType type;
  Dataset::Stored stored;
};

// `Decoder` is a JpegDecoder or a PictureDecoder.
template <typename Decoder>
Result<LookedAt> look_at_files(const std::vector<std::string>& files) {
  Decoder decoder;
  std::vector<std::uint8_t> bytes;
  LookedAt all;
  SampleType& type = all.type;
  const std::size_t count = std::min(files.size(), kMostInspected);
  for (std::size_t i = 0; i < count; ++i) {
    const auto looked = look_at(files[i], decoder, bytes);
    if (!looked) return tl::unexpected(looked.error());
    const SampleShape& shape = looked->shape;
    if (i == 0) type = input::type_of(Element::encoded, shape);
    type.height = {std::min(type.height.least, shape.height),
                   std::max(type.height.most, shape.height)};
    type.width = {std::min(type.width.least, shape.width), std::max(type.width.most, shape.width)};
    all.stored.bytes += looked->bytes;
    all.stored.decoded_bytes += shape.elements();
  }
  type.is_complete = files.size() <= kMostInspected;
  all.stored.items = static_cast<std::int64_t>(files.size());
  const double share = static_cast<double>(files.size()) / static_cast<double>(count);
  for (std::int64_t* const sum : {&all.stored.bytes, &all.stored.decoded_bytes})
    *sum = static_cast<std::int64_t>(static_cast<double>(*sum) * share);
  return all;
}

class ImageDataset final : public Dataset {
 public:
  struct Labels {
    std::vector<std::uint16_t> of_files;  // empty: random
    int classes = 1;
    std::uint64_t seed = 1;
  };

  ImageDataset(std::vector<std::string> files, std::int64_t size, const LookedAt& all,
               Labels labels)
      : files_(std::move(files)),
        size_(size),
        type_(all.type),
        stored_(all.stored),
        labels_(std::move(labels)) {}

  std::int64_t size() const override { return size_; }
  SampleType type() const override { return type_; }
  int classes() const override { return labels_.classes; }
  std::int64_t label(std::int64_t index) const override {
    assert(index >= 0 && index < size_);
    if (!labels_.of_files.empty()) return labels_.of_files[file_of(index)];
    const RandomStream random(labels_.seed, 0);
    return static_cast<std::int64_t>(below(random.at(static_cast<std::uint64_t>(index)),
                                           static_cast<std::uint64_t>(labels_.classes)));
  }
  Result<void> read_encoded(std::int64_t index, std::vector<std::uint8_t>& out) const override {
    auto read = read_front(files_[file_of(index)], kMostFileBytes, out);
    if (!read) return tl::unexpected(std::move(read.error()));
    return {};
  }
  std::int64_t stored_index(std::int64_t index) const override {
    return static_cast<std::int64_t>(file_of(index));
  }
  Stored stored() const override { return stored_; }
  std::string name(std::int64_t index) const override { return files_[file_of(index)]; }

 private:
  std::size_t file_of(std::int64_t index) const {
    return static_cast<std::size_t>(index) % files_.size();
  }

  std::vector<std::string> files_;
  std::int64_t size_;
  SampleType type_;
  Stored stored_;
  Labels labels_;
};

// Numbers the folders that hold the files, in the order of their names.
Result<ImageDataset::Labels> labels_from_folders(const std::vector<std::string>& files,
                                                 std::int64_t classes) {
  const auto folder_of = [](const std::string& file) {
    return std::filesystem::path(file).parent_path().filename().string();
  };
  std::set<std::string> folders;
  for (const std::string& file : files)
    folders.insert(folder_of(file));
  const auto count = static_cast<std::int64_t>(folders.size());
  if (count > kMostClasses || (classes != 0 && classes < count)) {
    return fail(ErrorKind::invalid,
                "the files lie in " + format_count(count) +
                    " folders, which are more classes than " +
                    std::to_string(classes != 0 ? classes : kMostClasses),
                "data", "set `classes` to the number of folders, or labels: random");
  }
  ImageDataset::Labels labels;
  labels.classes = static_cast<int>(classes != 0 ? classes : count);
  for (const std::string& file : files) {
    labels.of_files.push_back(
        static_cast<std::uint16_t>(std::distance(folders.begin(), folders.find(folder_of(file)))));
  }
  return labels;
}

// `files` in their order, with labels.
struct Named {
  std::vector<std::string> files;
  ImageDataset::Labels labels;
};

template <typename Decoder>
Result<std::unique_ptr<Dataset>> open_named(const Json& parameters, Named named) {
  const auto count = static_cast<std::int64_t>(named.files.size());
  if (count > kMostSamples) return fail(ErrorKind::invalid, "there are too many files", "data");
  const auto size = bounded_integer(parameters, "repeat_to", 1, kMostSamples, count);
  if (!size) return tl::unexpected(size.error());
  const auto all = look_at_files<Decoder>(named.files);
  if (!all) return tl::unexpected(all.error());
  return std::make_unique<ImageDataset>(std::move(named.files), *size, *all,
                                        std::move(named.labels));
}

template <typename Decoder>
Result<std::unique_ptr<Dataset>> open_files(const Json& parameters) {
  auto files = file_list(parameters, "files");
  if (!files) return tl::unexpected(files.error());
  const auto classes = bounded_integer(parameters, "classes", 1, kMostClasses, 0);
  if (!classes) return tl::unexpected(classes.error());
  constexpr std::int64_t kAnySeed = std::numeric_limits<std::int64_t>::max();
  const auto seed = bounded_integer(parameters, "seed", 0, kAnySeed, 1);
  if (!seed) return tl::unexpected(seed.error());
  const Json& kind = member(parameters, "labels");

  ImageDataset::Labels labels;
  if (kind.is_null() || kind == "folder_names") {
    auto numbered = labels_from_folders(*files, *classes);
    if (!numbered) return tl::unexpected(numbered.error());
    labels = std::move(*numbered);
  } else if (kind == "random") {
    constexpr std::int64_t kDefaultClasses = 10;
    labels.classes = static_cast<int>(*classes != 0 ? *classes : kDefaultClasses);
    labels.seed = static_cast<std::uint64_t>(*seed);
  } else {
    return fail(ErrorKind::invalid, "`labels` is not random or folder_names", "data");
  }
  return open_named<Decoder>(parameters, {std::move(*files), std::move(labels)});
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_image_files(const Json& parameters) {
  return open_files<PictureDecoder>(parameters);
}

Result<std::unique_ptr<Dataset>> open_jpeg_files(const Json& parameters) {
  return open_files<JpegDecoder>(parameters);
}

Result<std::unique_ptr<Dataset>> open_image_index(const Json& parameters) {
  const auto file = get_string(parameters, "index");
  if (!file) return tl::unexpected(file.error());
  const auto classes = bounded_integer(parameters, "classes", 1, kMostClasses, 0);
  if (!classes) return tl::unexpected(classes.error());
  auto index = read_image_index(*file, *classes);
  if (!index) return tl::unexpected(index.error());
  ImageDataset::Labels labels{.of_files = std::move(index->labels), .classes = index->classes};
  return open_named<PictureDecoder>(parameters, {std::move(index->files), std::move(labels)});
}

}  // namespace autotuned::input
