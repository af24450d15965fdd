// SPDX-License-Identifier: Apache-2.0
// Remembers the batch that an extension was given, to detect what it changes. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autotuned::trainer {

// Compares in every step of blocks, checks and training alike, so that an extension cannot tell a checked step; on a
// CPU this takes about a microsecond. Numbers of pixels, tokens and large targets are compared at a few places, which
// change from step to step. On a GPU only shapes are compared: reading numbers would wait for the device, and the
// checks read them anyway. One thread.
class GivenBatch {
 public:
  static constexpr std::size_t kPlaces = 8;
  static constexpr std::size_t kMaxLabelBytes = 16384;  // of which every one is compared

  void take(const at::Tensor& images, const at::Tensor& labels);
  // What the hook changed, as a clause; empty: no visible change. `rounds`: the numbers of images may differ by
  // rounding.
  [[nodiscard]] std::string difference(const at::Tensor& images, const at::Tensor& labels,
                                       bool rounds) const;
  // Whether the numbers of the labels, which must have the same sizes, visibly differ.
  [[nodiscard]] bool has_other_labels(const at::Tensor& labels) const;

 private:
  struct Sample {
    std::vector<std::int64_t> places;  // in the order of the tensor's values; none: not compared
    std::array<double, kPlaces> values{};
  };
  void take_sample(const at::Tensor& tensor, Sample& sample);
  [[nodiscard]] bool is_same(const Sample& sample, const at::Tensor& tensor, bool rounds) const;

  std::vector<std::int64_t> image_sizes_;
  std::vector<std::int64_t> label_sizes_;
  at::ScalarType label_type_ = at::kLong;
  bool has_label_bytes_ = false;
  std::vector<std::byte> label_bytes_;
  Sample labels_;  // where there are too many of them
  Sample images_;
  std::uint64_t place_ = 0;
};

// The same for a forward pass, which may show the model its batch in parts.
class ShownImages {
 public:
  void start(const at::Tensor& given);
  void add(const at::Tensor& images);
  [[nodiscard]] std::string difference() const;

 private:
  std::vector<std::int64_t> sizes_;
  std::int64_t samples_ = 0;
  bool has_other_size_ = false;
};

}  // namespace autotuned::trainer
