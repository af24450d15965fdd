// SPDX-License-Identifier: Apache-2.0
// How bytes become numbers behind the transfer: by a table, or by what a pipeline leaves to the device
// (input.point_ops: device). Part of feed.cpp: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "trainer/input/transforms/pixel_formula.hpp"
#include "trainer/input/transforms/pixel_table.hpp"

namespace autotuned::trainer {

// Where the device is the host: what the table makes of bytes (samples, channels, rows, columns), by LibTorch's
// threads. REQUIRES: both are contiguous, and there is room for as many numbers.
void convert_on_host(const input::PixelTable& table, const at::Tensor& bytes,
                     const at::Tensor& numbers);

// One thread. Functions throw c10::Error where they allocate.
class DevicePass {
 public:
  // Has nothing to do.
  DevicePass() = default;
  DevicePass(std::span<const input::PixelFormula> formulas, at::Device device);

  [[nodiscard]] bool is_empty() const { return steps_.empty(); }

  // Of bytes (samples, channels, rows, columns) the numbers that the loader's threads would have made of
  // them, on the device where they lie. REQUIRES: !is_empty().
  [[nodiscard]] at::Tensor run(const at::Tensor& bytes) const;

 private:
  // Constants are tensors on the device: what divides by a scalar may multiply by its reciprocal instead.
  struct Step {
    input::PixelFormula::Kind kind;
    std::vector<at::Tensor> columns;  // of the matrix
    at::Tensor offsets;
    at::Tensor divisors;
    double factor = 1;
  };
  [[nodiscard]] static at::Tensor apply(const Step& step, at::Tensor numbers);

  std::vector<Step> steps_;
};

}  // namespace autotuned::trainer
