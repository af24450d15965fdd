// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/unlabelled_pictures.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_pattern.hpp"
#include "trainer/input/datasets/dataset_types.hpp"
#include "trainer/input/decode/picture_decoder.hpp"

namespace autotuned::input {
namespace {

// Red, green and blue, a plane each, as one plane of grey. Grey stays what it is.
void write_grey(std::span<const std::uint8_t> planes, std::span<std::uint8_t> out) {
  // ITU-R 601, in 65,536ths, as PIL rounds them.
  constexpr std::uint32_t kRed = 19'595;
  constexpr std::uint32_t kGreen = 38'470;
  constexpr std::uint32_t kBlue = 7'471;
  constexpr std::uint32_t kHalf = 0x8000;
  const std::size_t plane = out.size();
  for (std::size_t i = 0; i < plane; ++i) {
    const std::uint32_t sum = std::uint32_t{planes[i]} * kRed +
                              std::uint32_t{planes[plane + i]} * kGreen +
                              std::uint32_t{planes[2 * plane + i]} * kBlue;
    out[i] = static_cast<std::uint8_t>((sum + kHalf) >> 16U);
  }
}

// Decoded when they are read.
class DecodedPictures final : public Dataset {
 public:
  DecodedPictures(std::unique_ptr<Dataset> files, SampleShape shape)
      : files_(std::move(files)), shape_(shape) {}

  std::int64_t size() const override { return files_->size(); }
  SampleType type() const override { return type_of(Element::uint8, shape_); }
  int classes() const override { return files_->classes(); }
  std::int64_t label(std::int64_t index) const override { return files_->label(index); }
  std::string name(std::int64_t index) const override { return files_->name(index); }

  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    std::vector<std::uint8_t> file;
    if (const auto stamp = files_->read_encoded(index, file); !stamp) {
      return tl::unexpected(stamp.error());
    }
    PictureDecoder decoder;
    const auto in_file = [this, index](Error error) {
      error.where = name(index);
      return tl::unexpected(std::move(error));
    };
    const auto shape = decoder.begin(file);
    if (!shape) return in_file(shape.error());
    if (shape->height != shape_.height || shape->width != shape_.width) {
      return in_file({ErrorKind::invalid, "has another size than before", {}, {}});
    }
    std::vector<std::uint8_t> planes(static_cast<std::size_t>(shape->elements()));
    if (auto decoded = decoder.decode(planes.data()); !decoded) return in_file(decoded.error());
    if (shape_.channels == kRgb) {
      std::ranges::copy(planes, out.begin());
    } else {
      write_grey(planes, out);
    }
    return {};
  }

 private:
  std::unique_ptr<Dataset> files_;
  SampleShape shape_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> open_unlabelled_pictures(const Json& parameters) {
  Json patterns = Json::array();
  for (const Json& file : member(parameters, "files"))
    if (file.is_string()) patterns.push_back(as_pattern(file.get<std::string>()));
  auto files = open_image_files({{"files", patterns}, {"labels", "random"}, {"classes", 1}}, {});
  if (!files || member(parameters, "channels").is_null()) return files;
  const auto channels = bounded_integer(parameters, "channels", 1, kRgb);
  if (!channels) return tl::unexpected(channels.error());
  if (*channels == 2) {
    return fail(ErrorKind::unsupported, "a picture has 1 or 3 channels, and 2 are asked for");
  }
  const SampleType type = (*files)->type();
  if (!type.has_one_shape()) {
    return fail(ErrorKind::invalid,
                "the pictures have different sizes (" + type.text() +
                    "), and the model was trained on arrays of one size",
                (*files)->name(0), "resize them to the size of the training data");
  }
  const SampleShape shape{static_cast<int>(*channels), type.height.least, type.width.least};
  return std::make_unique<DecodedPictures>(*std::move(files), shape);
}

}  // namespace autotuned::input
