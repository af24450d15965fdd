// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/point_wise.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/input/pixels/vector_code.hpp"
#include "trainer/input/transforms/pixel_table.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

constexpr float kLargestByte = 255.0F;

AUTOTUNED_VECTOR_CODE void divide(float* values, std::size_t count, float by) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] = values[i] / by;
}

AUTOTUNED_VECTOR_CODE void multiply(float* values, std::size_t count, double by) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<double>(values[i]) * by);
}

AUTOTUNED_VECTOR_CODE void subtract_and_divide(float* values, std::size_t count, float mean,
                                               float std) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] = (values[i] - mean) / std;
}

// Bytes become numbers by a table, numbers by arithmetic.
class PointWiseStage final : public PixelStage {
 public:
  PointWiseStage(PointOperation operation, PixelTable table, SampleType output)
      : operation_(std::move(operation)), table_(std::move(table)), output_(output) {}

  SampleType output() const override { return output_; }
  std::optional<PixelFormula> formula() const override {
    return operation_.formula(output_.channels);
  }

  void apply_rows(const PixelRows& rows, const StageMemory* /*memory*/) const override {
    for (int channel = 0; channel < rows.channels; ++channel) {
      auto* const values = rows.to_channel<float>(channel);
      if (rows.from_element == Element::uint8) {
        convert_channel(table_, channel, {rows.from_channel<std::uint8_t>(channel), rows.count()},
                        values);
        continue;
      }
      std::copy_n(rows.from_channel<float>(channel), rows.count(), values);
      operation_.apply(values, rows.count(), channel);
    }
  }

 private:
  PointOperation operation_;
  PixelTable table_;
  SampleType output_;
};

}  // namespace

Result<PointOperation> PointOperation::create(const Transform& transform, int channels) {
  PointOperation operation;
  if (transform.type == "to_float") return operation;
  if (transform.type == "scale") {
    const auto by = number_of(member(transform.parameters, "by"));
    if (!by) {
      return bad_parameter(transform, "by", "is not a finite number",
                           "give a number such as 1/255");
    }
    operation.kind_ = Kind::scale;
    operation.by_ = *by;
    return operation;
  }
  if (transform.type != "normalize") {
    return fail(ErrorKind::unsupported, "the transform `" + transform.type + "` is not known",
                "input", "use to_float, scale or normalize");
  }
  auto mean = per_channel(transform, "mean", channels);
  if (!mean) return tl::unexpected(mean.error());
  auto std = per_channel(transform, "std", channels);
  if (!std) return tl::unexpected(std.error());
  for (const float value : *std) {
    if (value == 0) {
      return bad_parameter(transform, "std", "is zero, but pixels are divided by it",
                           "give a positive number");
    }
  }
  operation.kind_ = Kind::normalize;
  operation.mean_ = std::move(*mean);
  operation.std_ = std::move(*std);
  return operation;
}

void PointOperation::apply(float* values, std::size_t count, int channel) const {
  switch (kind_) {
    case Kind::to_float:
      divide(values, count, kLargestByte);
      return;
    case Kind::scale:
      multiply(values, count, by_);
      return;
    case Kind::normalize:
      subtract_and_divide(values, count, mean_[static_cast<std::size_t>(channel)],
                          std_[static_cast<std::size_t>(channel)]);
  }
}

PixelFormula PointOperation::formula(int channels) const {
  PixelFormula formula{.channels = channels};
  switch (kind_) {
    case Kind::to_float:
      formula.kind = PixelFormula::Kind::divide;
      formula.divisors.assign(static_cast<std::size_t>(channels), kLargestByte);
      break;
    case Kind::scale:
      formula.kind = PixelFormula::Kind::multiply;
      formula.factor = by_;
      break;
    case Kind::normalize:
      formula.kind = PixelFormula::Kind::standardise;
      formula.offsets = mean_;
      formula.divisors = std_;
  }
  return formula;
}

MadeStage make_point_wise(const Transform& transform, const SampleType& input) {
  auto operation = PointOperation::create(transform, input.channels);
  if (!operation) return tl::unexpected(operation.error());
  auto table = make_pixel_table({&transform, 1}, input.channels);
  if (!table) return tl::unexpected(table.error());
  SampleType output = input;
  output.element = Element::float32;
  return std::make_unique<PointWiseStage>(std::move(*operation), std::move(*table), output);
}

}  // namespace autotuned::input
