// SPDX-License-Identifier: Apache-2.0
// Converts bytes to numbers after the transfer: by a table, or by the stages that a pipeline leaves to the device
// (input.point_ops: device). Part of feed.cpp: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "trainer/input/pixels/pixel_formula.hpp"
#include "trainer/input/transforms/pixel_table.hpp"

namespace autotuned::trainer {

// Converts bytes (samples, channels, rows, columns) by the table, on LibTorch's threads: for a job on the CPU.
// REQUIRES: both tensors are contiguous, and `numbers` has as many elements.
void convert_on_host(const input::PixelTable& table, const at::Tensor& bytes,
                     const at::Tensor& numbers);

// One thread. Functions throw c10::Error where they allocate.
class DevicePass {
 public:
  // An empty pass, without stages.
  DevicePass() = default;
  DevicePass(std::span<const input::PixelFormula> formulas, at::Device device);

  [[nodiscard]] bool is_empty() const { return steps_.empty(); }

  // Computes from bytes (samples, channels, rows, columns) the numbers that the loader's threads would have made, on
  // the device that holds the bytes. REQUIRES: !is_empty().
  [[nodiscard]] at::Tensor run(const at::Tensor& bytes) const;

 private:
  // Constants are tensors on the device: LibTorch may replace a division by a scalar with a multiplication by its
  // reciprocal, which rounds differently.
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
