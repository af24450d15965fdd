// SPDX-License-Identifier: Apache-2.0
// The floating-point operations of an ATen operator, from the sizes of its inputs.
#pragma once

#include <optional>
#include <string_view>

namespace autotuned::analysis {

// Whether floating_point_operations() knows operators of this name: matrix products, convolutions and their
// backward, linear layers, scaled dot-product attention. All others are left out, as in PyTorch's
// FlopCounterMode: they move data rather than compute.
[[nodiscard]] bool has_flop_formula(std::string_view name);

// Returns the floating-point operations of one call. A multiplication and an addition count as two. `sizes` and `values`
// are "Input Dims" and "Concrete Inputs" of a trace: "[[16, 3, 224, 224], [64, 3, 7, 7], []]" and ["", "",
// "[2, 2]"]. Returns nothing for an operator without a formula, for sizes that were not recorded or do not fit the
// operator, and for a convolution with unknown stride, padding and dilation.
//
// Formulas: 2 m k n for (m, k) times (k, n); 2 N P W for a convolution with P places of the output (of the
// input, if transposed) and W weights, and once more for each gradient that its backward computes; 2 b s t (d
// + v) for attention of s queries of width d over t keys and values of width v, without savings by a causal
// mask.
[[nodiscard]] std::optional<double> floating_point_operations(std::string_view name,
                                                              std::string_view sizes,
                                                              std::string_view values);

}  // namespace autotuned::analysis
