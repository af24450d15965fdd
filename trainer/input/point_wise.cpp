// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/point_wise.hpp"

#include <cmath>
#include <cstring>
#include <utility>

#include "trainer/input/pixel_table.hpp"
#include "trainer/input/transform_types.hpp"

namespace autotuned::input {
namespace {

// One number per channel, from one for all or from a list.
Result<std::vector<float>> per_channel(const Transform& transform, const char* name, int channels) {
  const Json& value = member(transform.parameters, name);
  const auto count = static_cast<std::size_t>(channels);
  if (value.is_array() && value.size() != count) {
    return bad_parameter(transform, name,
                         "has " + std::to_string(value.size()) + " numbers for " +
                             std::to_string(channels) + " channels",
                         "give one number per channel, or one for all");
  }
  std::vector<float> numbers;
  for (std::size_t c = 0; c < count; ++c) {
    const auto number = number_of(value.is_array() ? value[c] : value);
    const auto narrowed = static_cast<float>(number.value_or(0));
    if (!number || !std::isfinite(narrowed)) {
      return bad_parameter(transform, name, "is not a finite number",
                           "give a number such as 0.5, or a list with one per channel");
    }
    numbers.push_back(narrowed);
  }
  return numbers;
}

// Bytes become numbers by a table, numbers by arithmetic.
class PointWiseStage final : public Stage {
 public:
  PointWiseStage(PointOperation operation, PixelTable table, SampleType output)
      : operation_(std::move(operation)), table_(std::move(table)), output_(output) {}

  SampleType output() const override { return output_; }

  Result<Sample> apply(const Sample& sample, const RandomStream& /*draws*/, StageMemory* /*memory*/,
                       SampleRoom& room) const override {
    std::uint8_t* bytes = nullptr;
    const Sample result = room.take(Element::float32, sample.shape, bytes);
    auto* const values = reinterpret_cast<float*>(bytes);
    if (sample.element == Element::uint8) {
      convert_sample(table_, sample.bytes, values);
      return result;
    }
    std::memcpy(bytes, sample.bytes.data(), sample.bytes.size());
    const auto count = static_cast<std::size_t>(sample.shape.height) *
                       static_cast<std::size_t>(sample.shape.width);
    for (int channel = 0; channel < sample.shape.channels; ++channel) {
      operation_.apply(values + static_cast<std::size_t>(channel) * count, count, channel);
    }
    return result;
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
      return bad_parameter(transform, "std", "is zero, which would divide by zero",
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
      for (std::size_t i = 0; i < count; ++i)
        values[i] = values[i] / 255.0F;
      return;
    case Kind::scale:
      for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(static_cast<double>(values[i]) * by_);
      return;
    case Kind::normalize:
      const float mean = mean_[static_cast<std::size_t>(channel)];
      const float std = std_[static_cast<std::size_t>(channel)];
      for (std::size_t i = 0; i < count; ++i)
        values[i] = (values[i] - mean) / std;
  }
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
