// SPDX-License-Identifier: Apache-2.0
// The numbers that formula.py computes by the same formula, exactly. Includes LibTorch.
#pragma once

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "tests/places.hpp"
#include "trainer/models/model.hpp"

namespace autotuned::trainer {

inline constexpr std::uint32_t kImages = 1'000'000;  // the number that images have in the formula

// From -1 to below 1, as if at random; element `j` of tensor `which`.
inline double number(std::uint32_t j, std::uint32_t which) {
  std::uint32_t h = j * 0x9E3779B1U + which * 0x85EBCA6BU;
  h ^= h >> 15U;
  h *= 0x2C1B3C6DU;
  h ^= h >> 12U;
  h *= 0x297A2D39U;
  h ^= h >> 15U;
  return static_cast<double>(h) / 2147483648.0 - 1.0;
}

// Sets each element to scale x number + offset.
inline void fill(const at::Tensor& tensor, std::uint32_t which, double scale = 1.0,
                 double offset = 0.0) {
  auto* const values = tensor.mutable_data_ptr<float>();
  for (std::int64_t j = 0; j < tensor.numel(); ++j) {
    values[j] = static_cast<float>(offset + scale * number(static_cast<std::uint32_t>(j), which));
  }
}

inline at::Tensor images_of(const std::vector<std::int64_t>& shape) {
  at::Tensor images = at::empty(shape);
  fill(images, kImages);
  return images;
}

// By name: what keeps activations of about the same size through the layers.
inline void fill(Model& model) {
  std::uint32_t which = 0;
  const auto fill_one = [&](const std::string& name, const at::Tensor& tensor) {
    const std::uint32_t i = which++;
    if (!tensor.is_floating_point()) return;
    if (name.ends_with("running_var")) return fill(tensor, i, 0.5, 1.0);
    if (name.find('.') == std::string::npos) return fill(tensor, i, 0.5);
    if (tensor.dim() > 1) {
      const auto ratio =
          3.0 * static_cast<double>(tensor.size(0)) / static_cast<double>(tensor.numel());
      return fill(tensor, i, std::sqrt(ratio));
    }
    fill(tensor, i, 0.1, name.ends_with("weight") ? 1.0 : 0.0);
  };
  for (const auto& parameter : model.named_parameters())
    fill_one(parameter.key(), parameter.value());
  for (const auto& buffer : model.named_buffers())
    fill_one(buffer.key(), buffer.value());
}

// The entries of data/NAME.
inline std::vector<Json> reference(const std::string& name) {
  std::ifstream file(tests::source_folder() / "tests/trainer/models/data" / name);
  const Json entries = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(entries.is_array()) << name;
  return entries;
}

// "[32, 10]", as references write it.
inline std::string shape_in_reference(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes())
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

inline std::vector<double> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).flatten().contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

inline std::vector<double> norms_of(const std::vector<at::Tensor>& tensors) {
  std::vector<double> norms;
  for (const at::Tensor& tensor : tensors)
    norms.push_back(tensor.detach().to(at::kDouble).norm().item<double>());
  return norms;
}

inline void expect_near_reference(const std::vector<double>& actual, const Json& expected,
                                  double relative, double absolute) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double value = expected[i];
    EXPECT_NEAR(actual[i], value, absolute + relative * std::fabs(value)) << i;
  }
}

}  // namespace autotuned::trainer
