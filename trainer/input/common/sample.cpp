// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/common/sample.hpp"

namespace autotuned::input {
namespace {

std::string text_of(Extent extent) {
  const std::string least = std::to_string(extent.least);
  return extent.is_fixed() ? least : least + " to " + std::to_string(extent.most);
}

}  // namespace

std::string SampleType::text() const {
  return std::to_string(channels) + " x " + text_of(height) + " x " + text_of(width);
}

}  // namespace autotuned::input
