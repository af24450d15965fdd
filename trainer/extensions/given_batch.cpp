// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/given_batch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trainer/extensions/places.hpp"

namespace autotuned::trainer {
namespace {

// The largest difference that counts as rounding, as a part of the largest compared number: the rounding of the
// smallest floating-point types.
constexpr double kMaxRounding = 1.0 / 16;
// The multiples of this number modulo 2^64 are evenly spread, so that places are for any size.
constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15U;

template <class T>
void read_as(const at::Tensor& tensor, const std::vector<std::int64_t>& places,
             std::array<double, GivenBatch::kPlaces>& values) {
  const auto* const first = static_cast<const T*>(tensor.const_data_ptr());
  for (std::size_t i = 0; i < places.size(); ++i)
    values[i] = static_cast<double>(first[offset_of(tensor, places[i])]);
}

// False: of a type that is not known here.
bool read(const at::Tensor& tensor, const std::vector<std::int64_t>& places,
          std::array<double, GivenBatch::kPlaces>& values) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      read_as<float>(tensor, places, values);
      return true;
    case at::kDouble:
      read_as<double>(tensor, places, values);
      return true;
    case at::kBFloat16:
      read_as<at::BFloat16>(tensor, places, values);
      return true;
    case at::kHalf:
      read_as<at::Half>(tensor, places, values);
      return true;
    case at::kLong:
      read_as<std::int64_t>(tensor, places, values);
      return true;
    case at::kInt:
      read_as<std::int32_t>(tensor, places, values);
      return true;
    case at::kByte:
      read_as<std::uint8_t>(tensor, places, values);
      return true;
    default:
      return false;
  }
}

std::string count_text(std::int64_t samples) {
  return std::to_string(samples) + (samples == 1 ? " sample" : " samples");
}

}  // namespace

void GivenBatch::take(const at::Tensor& images, const at::Tensor& labels) {
  // Not the tensors themselves: a hook may change those in place.
  image_sizes_.assign(images.sizes().begin(), images.sizes().end());
  label_sizes_.assign(labels.sizes().begin(), labels.sizes().end());
  label_type_ = labels.scalar_type();
  has_label_bytes_ =
      can_be_read(labels) && labels.is_contiguous() && labels.nbytes() <= kMaxLabelBytes;
  labels_.places.clear();
  if (has_label_bytes_) {
    label_bytes_.resize(labels.nbytes());
    std::memcpy(label_bytes_.data(), labels.const_data_ptr(), label_bytes_.size());
  } else {
    take_sample(labels, labels_);
  }
  take_sample(images, images_);
}

void GivenBatch::take_sample(const at::Tensor& tensor, Sample& sample) {
  sample.places.clear();
  if (!can_be_read(tensor)) return;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    place_ += kStride;
    sample.places.push_back(
        static_cast<std::int64_t>((place_ >> 16U) % static_cast<std::uint64_t>(tensor.numel())));
  }
  if (!read(tensor, sample.places, sample.values)) sample.places.clear();
}

bool GivenBatch::is_same(const Sample& sample, const at::Tensor& tensor, bool rounds) const {
  std::array<double, kPlaces> values{};
  if (sample.places.empty() || !can_be_read(tensor)) return true;
  if (!read(tensor, sample.places, values)) return true;
  double largest = 0.0;
  for (const double value : sample.values)
    largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const double before = sample.values[i];
    if (values[i] == before || (std::isnan(values[i]) && std::isnan(before))) continue;
    if (!rounds || !(std::abs(values[i] - before) <= kMaxRounding * largest)) return false;
  }
  return true;
}

std::string GivenBatch::difference(const at::Tensor& images, const at::Tensor& labels,
                                   bool rounds) const {
  if (images.dim() == 0 || images.size(0) != image_sizes_.front()) {
    return "leaves " + count_text(images.dim() == 0 ? 0 : images.size(0)) + " instead of " +
           std::to_string(image_sizes_.front());
  }
  if (images.sizes() != at::IntArrayRef(image_sizes_)) return "leaves images of another size";
  if (labels.sizes() != at::IntArrayRef(label_sizes_) || labels.scalar_type() != label_type_) {
    return "leaves labels of another size or type";
  }
  if (has_other_labels(labels)) return "leaves other labels";
  return is_same(images_, images, rounds) ? "" : "leaves other images";
}

bool GivenBatch::has_other_labels(const at::Tensor& labels) const {
  if (!has_label_bytes_) return !is_same(labels_, labels, /*rounds=*/false);
  if (!can_be_read(labels)) return false;
  const at::Tensor flat = labels.contiguous();
  return flat.nbytes() != label_bytes_.size() ||
         std::memcmp(flat.const_data_ptr(), label_bytes_.data(), label_bytes_.size()) != 0;
}

void ShownImages::start(const at::Tensor& given) {
  sizes_.assign(given.sizes().begin(), given.sizes().end());
  samples_ = 0;
  has_other_size_ = false;
}

void ShownImages::add(const at::Tensor& images) {
  if (images.dim() == 0 || images.sizes().slice(1) != at::IntArrayRef(sizes_).slice(1)) {
    has_other_size_ = true;
    return;
  }
  samples_ += images.size(0);
}

std::string ShownImages::difference() const {
  if (has_other_size_) return "shows the model images of another size";
  if (samples_ == sizes_.front()) return {};
  return "shows the model " + count_text(samples_) + " instead of " +
         std::to_string(sizes_.front());
}

}  // namespace autotuned::trainer
