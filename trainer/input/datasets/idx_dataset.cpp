// SPDX-License-Identifier: Apache-2.0
// Data sets in IDX files, the format of MNIST: 0, 0, type, number of dimensions, each dimension as a
// big-endian 32-bit number, then the elements.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/byte_stream.hpp"
#include "base/text.hpp"
#include "trainer/input/datasets/dataset_types.hpp"

namespace autotuned::input {
namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;
constexpr std::size_t kImageDimensions = 3;
constexpr std::size_t kLabelDimensions = 1;

// Not a vector: it would fill the memory with zeros first, and so touch as much as a damaged header asks for.
struct Bytes {
  std::unique_ptr<std::uint8_t[]> data;
  std::size_t size = 0;
};

struct IdxFile {
  ByteStream stream;
  std::string where;
  const char* items;  // "images" or "labels"
  std::array<std::int64_t, kImageDimensions> dimensions{};

  std::int64_t count() const { return dimensions[0]; }
};

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  std::string text;
  std::array<char, 4> digits{};
  for (const std::uint8_t byte : bytes) {
    std::snprintf(digits.data(), digits.size(), "%02x ", byte);
    text += digits.data();
  }
  if (!text.empty()) text.pop_back();
  return text;
}

tl::unexpected<Error> not_idx(const IdxFile& file, std::string what) {
  return fail(ErrorKind::corrupt, std::move(what), file.where,
              "give an IDX file of unsigned bytes, plain or gzipped");
}

Result<void> check_magic(const IdxFile& file, std::span<const std::uint8_t> magic,
                         std::size_t dimensions) {
  if (magic[0] != 0 || magic[1] != 0 || magic[3] == 0) {
    return not_idx(file, "is not an IDX file: it starts with " + hexadecimal(magic));
  }
  if (magic[2] != kUnsignedBytes) {
    return not_idx(file, "holds elements of the IDX type 0x" + hexadecimal(magic.subspan(2, 1)) +
                             ", not unsigned bytes (0x08)");
  }
  if (magic[3] != dimensions) {
    return fail(ErrorKind::corrupt,
                "has " + std::to_string(magic[3]) + " dimensions where " + std::string(file.items) +
                    " have " + std::to_string(dimensions),
                file.where, "check that `images` and `labels` are not exchanged");
  }
  return {};
}

Error missing_file(Error error, const char* items) {
  if (error.kind == ErrorKind::not_found) {
    error.remedy = "check `" + std::string(items) + "` in the recipe";
    if (error.where.find("/fashion-mnist/") != std::string::npos) {
      error.remedy += ", or install the package dataset-fashion-mnist";
    }
  }
  return error;
}

// Opens a file and reads its header. `items` is also the name of the recipe's parameter.
Result<IdxFile> open_idx_file(const Json& parameters, const char* items, std::size_t dimensions) {
  auto path = get_string(parameters, items);
  if (!path) {
    path.error().where = "data";
    return tl::unexpected(path.error());
  }
  auto stream = ByteStream::open(*path);
  if (!stream) return tl::unexpected(missing_file(stream.error(), items));
  IdxFile file{std::move(*stream), *path, items, {1, 1, 1}};

  std::array<std::uint8_t, 4> word{};
  for (std::size_t i = 0; i <= dimensions; ++i) {
    auto outcome = file.stream.read(word);
    if (outcome.cut_short) {
      outcome.cut_short->what += " within its header";
      return tl::unexpected(*outcome.cut_short);
    }
    if (i == 0) {
      const auto checked = check_magic(file, word, dimensions);
      if (!checked) return tl::unexpected(checked.error());
    } else {
      file.dimensions[i - 1] = (std::int64_t{word[0]} << 24U) | (std::int64_t{word[1]} << 16U) |
                               (std::int64_t{word[2]} << 8U) | std::int64_t{word[3]};
    }
  }
  const auto& [count, height, width] = file.dimensions;
  if (count == 0) return not_idx(file, "holds no " + std::string(items));
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide ||
      height * width > kMaxSampleBytes) {
    return not_idx(file, "claims images of " + format_count(height) + " x " + format_count(width));
  }
  return file;
}

// The first `count` items, `item_bytes` each; all that there are must end the file.
Result<Bytes> read_items(IdxFile& file, std::int64_t count, std::int64_t item_bytes) {
  const std::string of = " of " + format_count(file.count()) + " " + file.items;
  // No overflow: count < 2^32 and item_bytes <= 2^30.
  const auto wanted = static_cast<std::uint64_t>(count * item_bytes);
  // No more memory than the file can fill, whatever its header claims.
  const std::uint64_t room = std::min(wanted, file.stream.most_bytes());
  Bytes bytes{std::unique_ptr<std::uint8_t[]>(new (std::nothrow) std::uint8_t[room]), room};
  if (bytes.data == nullptr) {
    return fail(
        ErrorKind::out_of_memory,
        "no memory for " + format_bytes(static_cast<std::int64_t>(room)) + " of " + file.items,
        file.where, "set `data.limit` to use fewer samples");
  }
  auto outcome = file.stream.read({bytes.data.get(), bytes.size});
  if (outcome.cut_short) {
    const auto whole = static_cast<std::int64_t>(outcome.bytes) / item_bytes;
    outcome.cut_short->what += " after " + format_count(whole) + of;
    return tl::unexpected(*outcome.cut_short);
  }
  assert(room == wanted);  // else read() could not have filled it
  if (count == file.count()) {
    auto end = file.stream.expect_end();
    if (!end) {
      end.error().what += " after " + format_count(count) + of;
      return tl::unexpected(end.error());
    }
  }
  return bytes;
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(Bytes images, Bytes labels, SampleShape shape, int classes, std::string labels_file)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        shape_(shape),
        classes_(classes),
        labels_file_(std::move(labels_file)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size); }
  SampleType type() const override { return type_of(Element::uint8, shape_); }
  int classes() const override { return classes_; }
  std::int64_t label(std::int64_t index) const override {
    assert(index >= 0 && index < size());
    return labels_.data[static_cast<std::size_t>(index)];
  }
  // Only labels can be wrong: the images are numbers of any kind.
  std::string name(std::int64_t index) const override {
    return "sample " + std::to_string(index) + " of " + labels_file_;
  }
  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    const auto bytes = view(index);
    assert(out.size() == bytes.size());
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return {};
  }
  std::span<const std::uint8_t> view(std::int64_t index) const override {
    assert(index >= 0 && index < size());
    const auto bytes = static_cast<std::size_t>(shape_.elements());
    return {images_.data.get() + static_cast<std::size_t>(index) * bytes, bytes};
  }

 private:
  Bytes images_;
  Bytes labels_;
  SampleShape shape_;
  int classes_;
  std::string labels_file_;
};

// The number of classes: as given (0: not given), or one more than the highest label.
Result<int> check_labels(const IdxFile& file, const Bytes& labels, std::int64_t classes) {
  const std::span<const std::uint8_t> all(labels.data.get(), labels.size);
  if (classes == 0) return *std::max_element(all.begin(), all.end()) + 1;
  const auto bad = std::find_if(all.begin(), all.end(),
                                [classes](std::uint8_t label) { return label >= classes; });
  if (bad != all.end()) {
    return fail(ErrorKind::invalid,
                "the label of sample " + std::to_string(bad - all.begin()) + " is " +
                    std::to_string(*bad) + ", but " + std::to_string(classes) +
                    " classes have the labels 0 to " + std::to_string(classes - 1),
                file.where, "give the model more classes, or other labels");
  }
  return static_cast<int>(classes);
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_idx(const Json& parameters) {
  const auto limit = bounded_integer(parameters, "limit", 1, kMaxSamples, kMaxSamples);
  if (!limit) return tl::unexpected(limit.error());
  const auto classes = bounded_integer(parameters, "classes", 1, kMaxClasses, 0);
  if (!classes) return tl::unexpected(classes.error());
  auto images = open_idx_file(parameters, "images", kImageDimensions);
  if (!images) return tl::unexpected(images.error());
  auto labels = open_idx_file(parameters, "labels", kLabelDimensions);
  if (!labels) return tl::unexpected(labels.error());
  if (images->count() != labels->count()) {
    return fail(ErrorKind::invalid,
                "holds " + format_count(labels->count()) + " labels for the " +
                    format_count(images->count()) + " images in " + images->where,
                labels->where, "give files with the same number of samples");
  }

  const SampleShape shape{1, static_cast<int>(images->dimensions[1]),
                          static_cast<int>(images->dimensions[2])};
  const std::int64_t count = std::min(*limit, images->count());
  auto label_bytes = read_items(*labels, count, 1);
  if (!label_bytes) return tl::unexpected(label_bytes.error());
  const auto class_count = check_labels(*labels, *label_bytes, *classes);
  if (!class_count) return tl::unexpected(class_count.error());
  auto image_bytes = read_items(*images, count, shape.elements());
  if (!image_bytes) return tl::unexpected(image_bytes.error());
  return std::make_unique<IdxDataset>(std::move(*image_bytes), std::move(*label_bytes), shape,
                                      *class_count, labels->where);
}

}  // namespace autotuned::input
