// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/flops.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace autotuned::analysis {
namespace {

constexpr std::size_t kMaxInputs = 16;

using Size = std::vector<double>;  // sizes of a tensor; empty: not a tensor, or without dimensions
using Flops = std::optional<double>;

// Reads "[2, 2]", also without the brackets. Returns nothing if there is anything but numbers between the commas.
std::optional<Size> numbers_in(std::string_view text) {
  Size numbers;
  const auto is_blank = [](char c) { return c <= ' ' || c == '[' || c == ']'; };
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (!word.empty() && is_blank(word.front()))
      word.remove_prefix(1);
    while (!word.empty() && is_blank(word.back()))
      word.remove_suffix(1);
    if (word.empty() && numbers.empty() && text.empty()) break;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    numbers.push_back(static_cast<double>(number));
  }
  return numbers;
}

// Reads the sizes of the first inputs. A list of tensors counts as one input without a size.
std::vector<Size> sizes_in(std::string_view text) {
  std::vector<Size> sizes;
  int depth = 0;
  std::size_t begin = 0;
  bool is_list = false;
  for (std::size_t i = 0; i < text.size() && sizes.size() < kMaxInputs; ++i) {
    if (text[i] == '[') {
      ++depth;
      if (depth == 2) {
        begin = i;
        is_list = false;
      }
      if (depth > 2) is_list = true;
    } else if (text[i] == ']') {
      if (depth == 2) {
        sizes.push_back(is_list ? Size{}
                                : numbers_in(text.substr(begin, i - begin)).value_or(Size{}));
      }
      --depth;
    }
  }
  return sizes;
}

// Returns the contents of the strings of a list.
std::vector<std::string_view> strings_in(std::string_view text) {
  std::vector<std::string_view> strings;
  while (strings.size() < kMaxInputs) {
    const std::size_t begin = text.find('"');
    const std::size_t end = begin == text.npos ? begin : text.find('"', begin + 1);
    if (end == text.npos) break;
    strings.push_back(text.substr(begin + 1, end - begin - 1));
    text.remove_prefix(end + 1);
  }
  return strings;
}

double product(const Size& size, std::size_t from = 0) {
  double all = 1;
  for (std::size_t i = from; i < size.size(); ++i)
    all *= size[i];
  return all;
}

// (..., m, k) times (..., k, n), with the same number of dimensions.
Flops matrix_product(const Size& left, const Size& right, std::size_t dimensions) {
  if (left.size() != dimensions || right.size() != dimensions) return std::nullopt;
  return 2 * product(left) * right.back();
}

enum class Kind {
  product,
  batched_product,
  vector_product,
  linear,
  convolution,
  backward,
  attention
};

// The positions of the inputs in the signature of an operator.
struct Formula {
  std::string_view name;
  Kind kind;
  std::size_t first = 0;  // position of the first of two tensors
  std::size_t stride = 0;
  std::size_t padding = 0;
  std::size_t dilation = 0;
  std::size_t transposed = 0;  // 0: never
};
constexpr std::array kFormulas = {
    Formula{"aten::mm", Kind::product},
    Formula{"aten::addmm", Kind::product, 1},
    Formula{"aten::bmm", Kind::batched_product},
    Formula{"aten::baddbmm", Kind::batched_product, 1},
    Formula{"aten::mv", Kind::vector_product},
    Formula{"aten::addmv", Kind::vector_product, 1},
    Formula{"aten::linear", Kind::linear},
    Formula{"aten::mkldnn_linear", Kind::linear},
    Formula{"aten::conv1d", Kind::convolution, 0, 3, 4, 5},
    Formula{"aten::conv2d", Kind::convolution, 0, 3, 4, 5},
    Formula{"aten::conv3d", Kind::convolution, 0, 3, 4, 5},
    Formula{"aten::convolution", Kind::convolution, 0, 3, 4, 5, 6},
    Formula{"aten::_convolution", Kind::convolution, 0, 3, 4, 5, 6},
    Formula{"aten::mkldnn_convolution", Kind::convolution, 0, 4, 3, 5},
    Formula{"aten::cudnn_convolution", Kind::convolution, 0, 3, 2, 4},
    Formula{"aten::convolution_backward", Kind::backward, 0, 4, 5, 6, 7},
    Formula{"aten::scaled_dot_product_attention", Kind::attention},
    Formula{"aten::_scaled_dot_product_flash_attention", Kind::attention},
    Formula{"aten::_scaled_dot_product_flash_attention_for_cpu", Kind::attention},
    Formula{"aten::_scaled_dot_product_efficient_attention", Kind::attention},
    Formula{"aten::_scaled_dot_product_cudnn_attention", Kind::attention},
};

const Formula* formula_of(std::string_view name) {
  const auto* const found = std::ranges::find(kFormulas, name, &Formula::name);
  return found == kFormulas.end() ? nullptr : found;
}

// Whether the value is "True", also as an element of a list.
bool is_true(std::string_view word) {
  const auto is_around = [](char c) { return c <= ' ' || c == '[' || c == ']'; };
  while (!word.empty() && is_around(word.front()))
    word.remove_prefix(1);
  while (!word.empty() && is_around(word.back()))
    word.remove_suffix(1);
  return word == "True" || word == "true" || word == "1";
}

// The number of places of the output of a convolution, without batch and channels.
Flops output_places(const Formula& formula, const Size& input, const Size& weight,
                    const std::vector<std::string_view>& values) {
  const std::size_t dimensions = weight.size() - 2;
  const auto setting = [&](std::size_t index) -> std::optional<Size> {
    if (index >= values.size()) return std::nullopt;
    auto numbers = numbers_in(values[index]);
    if (!numbers || numbers->empty()) return std::nullopt;
    if (numbers->size() == 1) numbers->resize(dimensions, numbers->front());
    if (numbers->size() != dimensions) return std::nullopt;
    return numbers;
  };
  const auto stride = setting(formula.stride);
  const auto padding = setting(formula.padding);
  const auto dilation = setting(formula.dilation);
  if (!stride || !padding || !dilation) return std::nullopt;
  double places = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    if ((*stride)[i] < 1) return std::nullopt;
    const double window = (*dilation)[i] * (weight[i + 2] - 1) + 1;
    const double positions = input[i + 2] + 2 * (*padding)[i] - window;
    if (positions < 0) return std::nullopt;
    places *= std::floor(positions / (*stride)[i]) + 1;
  }
  return places;
}

Flops convolution(const Formula& formula, const std::vector<Size>& sizes,
                  const std::vector<std::string_view>& values) {
  const Size& input = sizes[formula.first];
  const Size& weight = sizes[formula.first + 1];
  // A sample without a batch has one dimension less.
  if (weight.size() < 3 || input.size() != weight.size()) return std::nullopt;
  const bool is_transposed = formula.transposed > 0 && formula.transposed < values.size() &&
                             is_true(values[formula.transposed]);
  const Flops places =
      is_transposed ? Flops(product(input, 2)) : output_places(formula, input, weight, values);
  if (!places) return std::nullopt;
  return 2 * input.front() * *places * product(weight);
}

// (gradient of the output, input, weight, ..., mask of the gradients that are wanted)
Flops convolution_backward(const Formula& formula, const std::vector<Size>& sizes,
                           const std::vector<std::string_view>& values) {
  constexpr std::size_t kMask = 10;
  if (sizes.size() < 3) return std::nullopt;
  const Size& output = sizes[0];
  const Size& weight = sizes[2];
  if (weight.size() < 3 || output.size() != weight.size()) return std::nullopt;
  const bool is_transposed =
      formula.transposed < values.size() && is_true(values[formula.transposed]);
  const Size& places = is_transposed ? sizes[1] : output;
  if (places.size() != weight.size()) return std::nullopt;
  double gradients = 2;
  if (kMask < values.size()) {
    const std::string_view mask = values[kMask];
    const std::size_t first = mask.find(',');
    const std::size_t second = mask.find(',', first == mask.npos ? first : first + 1);
    if (second != mask.npos) {
      gradients = (is_true(mask.substr(0, first)) ? 1 : 0) +
                  (is_true(mask.substr(first + 1, second - first - 1)) ? 1 : 0);
    }
  }
  return gradients * 2 * output.front() * product(places, 2) * product(weight);
}

// Queries, keys and values each have the shape (batch, heads, length, width).
Flops attention(const std::vector<Size>& sizes) {
  if (sizes.size() < 3) return std::nullopt;
  for (std::size_t i = 0; i < 3; ++i) {
    if (sizes[i].size() != 4) return std::nullopt;
  }
  return 2 * sizes[0][0] * sizes[0][1] * sizes[0][2] * sizes[1][2] * (sizes[0][3] + sizes[2][3]);
}

Flops flops_of(const Formula& formula, const std::vector<Size>& sizes,
               const std::vector<std::string_view>& values) {
  if (sizes.size() < formula.first + 2) return std::nullopt;
  const Size& left = sizes[formula.first];
  const Size& right = sizes[formula.first + 1];
  switch (formula.kind) {
    case Kind::product:
      return matrix_product(left, right, 2);
    case Kind::batched_product:
      return matrix_product(left, right, 3);
    case Kind::vector_product:
      if (left.size() != 2 || right.size() != 1) return std::nullopt;
      return 2 * product(left);
    case Kind::linear:
      if (left.empty() || right.size() != 2) return std::nullopt;
      return 2 * product(left) * right.front();
    case Kind::convolution:
      return convolution(formula, sizes, values);
    case Kind::backward:
      return convolution_backward(formula, sizes, values);
    case Kind::attention:
      return attention(sizes);
  }
  return std::nullopt;
}

}  // namespace

bool has_flop_formula(std::string_view name) {
  return formula_of(name) != nullptr;
}

std::optional<double> floating_point_operations(std::string_view name, std::string_view sizes,
                                                std::string_view values) {
  const Formula* const formula = formula_of(name);
  if (formula == nullptr) return std::nullopt;
  const Flops flops = flops_of(*formula, sizes_in(sizes), strings_in(values));
  // Sizes in a hostile file may be negative or huge.
  if (!flops || !(*flops >= 0) || *flops > 1e300) return std::nullopt;
  return flops;
}

}  // namespace autotuned::analysis
