// SPDX-License-Identifier: Apache-2.0
// Raw tensors in .npy files, read by position whenever they are needed: two trainers share the system's
// own cache of a file, and a file may be larger than the memory.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "base/text.hpp"
#include "trainer/input/datasets/data_file.hpp"
#include "trainer/input/datasets/dataset_types.hpp"
#include "trainer/input/datasets/npy_header.hpp"

namespace autotuned::input {
namespace {

struct ArrayFile {
  std::string path;
  DataFile file;
  NpyHeader header;

  std::int64_t count() const { return header.shape.empty() ? 0 : header.shape[0]; }
};

// The files of a parameter. All hold items of one type and shape.
Result<std::vector<ArrayFile>> open_arrays(const Json& parameters, const char* name) {
  const auto paths = file_list(parameters, name);
  if (!paths) return tl::unexpected(paths.error());
  std::vector<ArrayFile> arrays;
  for (const std::string& path : *paths) {
    auto file = open_data_file(path);
    if (!file) return tl::unexpected(file.error());
    auto header = read_npy_header(*file, path);
    if (!header) return tl::unexpected(header.error());
    const NpyHeader& first = arrays.empty() ? *header : arrays.front().header;
    const bool is_alike = header->type_text() == first.type_text() &&
                          header->shape.size() == first.shape.size() && !header->shape.empty() &&
                          std::equal(header->shape.begin() + 1, header->shape.end(),
                                     first.shape.begin() + 1, first.shape.end());
    if (!is_alike) {
      return fail(ErrorKind::invalid,
                  "holds " + header->shape_text() + " of " + header->type_text() +
                      (arrays.empty() ? ""
                                      : ", which does not match " + first.shape_text() + " of " +
                                            first.type_text() + " in " + arrays.front().path),
                  path, "give arrays that differ in their first dimension only");
    }
    arrays.push_back({path, std::move(*file), std::move(*header)});
  }
  return arrays;
}

std::int64_t count_of(const std::vector<ArrayFile>& arrays) {
  std::int64_t count = 0;  // below the bytes of the files together
  for (const ArrayFile& one : arrays)
    count += one.count();
  return count;
}

// Whether the last of four dimensions are the channels.
Result<bool> has_channels_last(const Json& parameters) {
  const Json& layout = member(parameters, "layout");
  if (layout.is_null() || layout == "nchw") return false;
  if (layout == "nhwc") return true;
  return fail(ErrorKind::invalid, "`layout` is not nchw or nhwc", "data");
}

Result<SampleType> sample_type_of(const ArrayFile& array, bool is_channels_last) {
  const NpyHeader& header = array.header;
  const std::string type = header.type_text();
  if (type != "|u1" && type != "<f4") {
    return fail(ErrorKind::unsupported, "holds numbers of the type " + type, array.path,
                "save array.astype('|u1') or array.astype('<f4')");
  }
  const bool has_channels = header.shape.size() == 4;
  std::array<std::int64_t, 3> sizes = {1, 1, 1};
  const auto refuse = [&](const char* remedy) {
    return fail(ErrorKind::invalid, "has the shape " + header.shape_text(), array.path, remedy);
  };
  if (!has_channels && header.shape.size() != 3) {
    return refuse("save (samples, channels, rows, columns), or (samples, rows, columns)");
  }
  std::copy(header.shape.begin() + 1, header.shape.end(), sizes.begin() + (has_channels ? 0 : 1));
  if (has_channels && is_channels_last) std::rotate(sizes.begin(), sizes.begin() + 2, sizes.end());
  std::int64_t bytes = header.item_bytes;
  for (const std::int64_t size : sizes) {
    if (size < 1 || size > kMaxSide) return refuse("save samples of 1 to 65,536 along each side");
    bytes *= size;  // at most 4 * 2^48
  }
  if (bytes > kMaxSampleBytes) return refuse("save smaller samples");
  const SampleShape shape{static_cast<int>(sizes[0]), static_cast<int>(sizes[1]),
                          static_cast<int>(sizes[2])};
  return type_of(type == "|u1" ? Element::uint8 : Element::float32, shape);
}

// Little-endian, as it stands in the file; nothing where no label can be so high or low.
std::optional<std::int64_t> integer_at(const std::uint8_t* bytes, const NpyHeader& header) {
  std::uint64_t value = 0;
  for (int i = header.item_bytes - 1; i >= 0; --i)
    value = (value << 8U) | bytes[i];
  const unsigned unused_bits = 64 - 8 * static_cast<unsigned>(header.item_bytes);
  if (header.kind == 'i') {
    return static_cast<std::int64_t>(value << unused_bits) >> unused_bits;
  }
  if (value > static_cast<std::uint64_t>(kMaxSamples)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

struct Labels {
  std::vector<std::uint16_t> all;
  int classes = 1;
};

Result<void> append_labels(const ArrayFile& array, std::int64_t classes, Labels& labels) {
  constexpr std::int64_t kChunk = 8192;
  const auto item_bytes = static_cast<std::size_t>(array.header.item_bytes);
  std::vector<std::uint8_t> bytes;
  for (std::int64_t first = 0; first < array.count(); first += kChunk) {
    const auto count = static_cast<std::size_t>(std::min(kChunk, array.count() - first));
    bytes.resize(count * item_bytes);
    const std::int64_t offset = array.header.data_begin + first * array.header.item_bytes;
    if (auto read = read_all_at(array.file, offset, bytes, array.path); !read) return read;
    for (std::size_t i = 0; i < count; ++i) {
      const auto label = integer_at(bytes.data() + i * item_bytes, array.header);
      if (!label || *label < 0 || *label >= classes) {
        return fail(ErrorKind::invalid,
                    "the label of sample " + std::to_string(first + static_cast<std::int64_t>(i)) +
                        " is " + (label ? std::to_string(*label) : "too large") +
                        ", not from 0 to " + std::to_string(classes - 1),
                    array.path, "number the classes from 0");
      }
      labels.all.push_back(static_cast<std::uint16_t>(*label));
    }
  }
  return {};
}

Result<Labels> read_labels(const Json& parameters, std::int64_t images) {
  const auto classes = bounded_integer(parameters, "classes", 1, kMaxClasses, 0);
  if (!classes) return tl::unexpected(classes.error());
  const auto arrays = open_arrays(parameters, "labels");
  if (!arrays) return tl::unexpected(arrays.error());
  const ArrayFile& first = arrays->front();
  const auto& shape = first.header.shape;
  if (first.header.kind == 'f' || shape.size() > 2 || (shape.size() == 2 && shape[1] != 1)) {
    return fail(
        ErrorKind::invalid,
        "holds " + first.header.shape_text() + " of " + first.header.type_text() + " as labels",
        first.path, "save one integer per sample");
  }
  if (count_of(*arrays) != images) {
    return fail(ErrorKind::invalid,
                "there are " + format_count(count_of(*arrays)) + " labels for " +
                    format_count(images) + " samples",
                first.path, "give files with the same number of samples");
  }
  Labels labels;
  for (const ArrayFile& array : *arrays) {
    auto appended = append_labels(array, *classes != 0 ? *classes : kMaxClasses, labels);
    if (!appended) return tl::unexpected(appended.error());
  }
  const int highest = *std::max_element(labels.all.begin(), labels.all.end());
  labels.classes = *classes != 0 ? static_cast<int>(*classes) : highest + 1;
  return labels;
}

// `kBytes` bytes an element.
template <std::size_t kBytes>
void split_channels(const std::uint8_t* from, std::size_t pixels, std::size_t channels,
                    std::uint8_t* to) {
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const std::uint8_t* element = from + channel * kBytes;
    for (std::size_t i = 0; i < pixels; ++i, to += kBytes, element += channels * kBytes)
      std::memcpy(to, element, kBytes);
  }
}

class NpyDataset final : public Dataset {
 public:
  NpyDataset(std::vector<ArrayFile> arrays, SampleType type, bool is_channels_last, Labels labels)
      : arrays_(std::move(arrays)),
        type_(type),
        is_channels_last_(is_channels_last),
        is_interleaved_(is_channels_last && type.channels > 1),
        sample_bytes_(static_cast<std::size_t>(type.shape().elements()) * bytes_of(type.element)),
        labels_(std::move(labels)) {
    std::int64_t end = 0;
    for (const ArrayFile& array : arrays_)
      ends_.push_back(end += array.count());
  }

  std::int64_t size() const override { return ends_.back(); }
  SampleType type() const override { return type_; }
  int classes() const override { return labels_.classes; }
  std::int64_t label(std::int64_t index) const override {
    assert(index >= 0 && index < size());
    return labels_.all[static_cast<std::size_t>(index)];
  }
  // Pictures have one, three or four channels, and more columns than that.
  std::string doubt() const override {
    const SampleShape shape = type_.shape();
    const auto is_usual = [](int channels) {
      return channels == 1 || channels == 3 || channels == 4;
    };
    if (is_channels_last_ || is_usual(shape.channels) || !is_usual(shape.width)) return {};
    return "pictures of " + std::to_string(shape.channels) + " channels and " +
           std::to_string(shape.width) + " columns are read from the shape " +
           arrays_.front().header.shape_text() +
           "; if the channels stand behind rows and columns, write layout: nhwc";
  }
  std::string name(std::int64_t index) const override {
    const auto [array, number] = place_of(index);
    return "sample " + std::to_string(number) + " of " + array->path;
  }

  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    assert(out.size() == sample_bytes_);
    const auto [array, number] = place_of(index);
    const std::int64_t offset =
        array->header.data_begin + number * static_cast<std::int64_t>(sample_bytes_);
    if (!is_interleaved_) return read_all_at(array->file, offset, out, array->path);
    // Kept by the thread, so that no sample takes memory.
    thread_local std::vector<std::uint8_t> pixels;
    pixels.resize(sample_bytes_);
    if (auto read = read_all_at(array->file, offset, pixels, array->path); !read) return read;
    const SampleShape shape = type_.shape();
    const auto channels = static_cast<std::size_t>(shape.channels);
    const auto count =
        static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
    if (type_.element == Element::uint8) {
      split_channels<1>(pixels.data(), count, channels, out.data());
    } else {
      split_channels<sizeof(float)>(pixels.data(), count, channels, out.data());
    }
    return {};
  }

 private:
  struct Place {
    const ArrayFile* array;
    std::int64_t number;  // of the sample in its file
  };
  Place place_of(std::int64_t index) const {
    assert(index >= 0 && index < size());
    const auto end = std::ranges::upper_bound(ends_, index);
    const auto& array = arrays_[static_cast<std::size_t>(end - ends_.begin())];
    return {&array, index - (*end - array.count())};
  }

  std::vector<ArrayFile> arrays_;
  std::vector<std::int64_t> ends_;  // of each file, in samples
  SampleType type_;
  bool is_channels_last_;
  bool is_interleaved_;  // the channels of a pixel stand next to each other
  std::size_t sample_bytes_;
  Labels labels_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> open_npy(const Json& parameters) {
  const auto is_channels_last = has_channels_last(parameters);
  if (!is_channels_last) return tl::unexpected(is_channels_last.error());
  auto images = open_arrays(parameters, "images");
  if (!images) return tl::unexpected(images.error());
  const auto type = sample_type_of(images->front(), *is_channels_last);
  if (!type) return tl::unexpected(type.error());
  const std::int64_t count = count_of(*images);
  if (count < 1 || count > kMaxSamples) {
    return fail(ErrorKind::invalid, "holds " + format_count(count) + " samples",
                images->front().path);
  }
  try {
    auto labels = read_labels(parameters, count);
    if (!labels) return tl::unexpected(labels.error());
    return std::make_unique<NpyDataset>(std::move(*images), *type, *is_channels_last,
                                        std::move(*labels));
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory for the labels", "data", "give fewer files");
  }
}

}  // namespace autotuned::input
