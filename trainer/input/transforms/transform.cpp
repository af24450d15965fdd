// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/transform.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

constexpr std::array kKinds = {
    TransformKind{.name = "decode",
                  .takes_encoded = true,
                  .takes_uint8 = false,
                  .takes_float32 = false,
                  .gives_parts = true,
                  .make = make_decode},
    TransformKind{.name = "decode_jpeg",
                  .takes_encoded = true,
                  .takes_uint8 = false,
                  .takes_float32 = false,
                  .gives_parts = true,
                  .make = make_decode_jpeg},
    TransformKind{.name = "random_crop",
                  .geometry = Geometry::cuts,
                  .draws = Draws::of_sample,
                  .make = make_random_crop,
                  .make_for_mask = make_random_crop},
    TransformKind{.name = "center_crop",
                  .geometry = Geometry::cuts,
                  .make = make_center_crop,
                  .make_for_mask = make_center_crop},
    TransformKind{.name = "random_resized_crop",
                  .takes_float32 = false,
                  .geometry = Geometry::cuts,
                  .draws = Draws::of_sample,
                  .then = "resize",
                  .make = make_random_resized_crop,
                  .make_for_mask = make_random_resized_crop},
    TransformKind{.name = "random_flip",
                  .geometry = Geometry::mirrors,
                  .draws = Draws::of_sample,
                  .make = make_random_flip,
                  .make_for_mask = make_random_flip},
    TransformKind{.name = "color_jitter",
                  .takes_float32 = false,
                  .draws = Draws::of_sample,
                  .make = make_color_jitter},
    TransformKind{.name = "rand_augment",
                  .takes_float32 = false,
                  .geometry = Geometry::moves,
                  .draws = Draws::of_sample,
                  .make = make_rand_augment},
    TransformKind{.name = "random_rotation",
                  .geometry = Geometry::moves,
                  .draws = Draws::of_sample,
                  .make = make_random_rotation,
                  .make_for_mask = make_mask_rotation},
    TransformKind{.name = "random_erasing", .draws = Draws::of_sample, .make = make_random_erasing},
    TransformKind{.name = "pad",
                  .geometry = Geometry::scales,
                  .make = make_pad,
                  .make_for_mask = make_mask_pad},
    TransformKind{.name = "resize",
                  .takes_float32 = false,
                  .geometry = Geometry::resizes,
                  .make = make_resize,
                  .make_for_mask = make_mask_resize},
    TransformKind{.name = "resize_shorter",
                  .takes_float32 = false,
                  .geometry = Geometry::scales,
                  .make = make_resize_shorter,
                  .make_for_mask = make_mask_resize_shorter},
    TransformKind{.name = "random_mask",
                  .is_pixel_wise = true,
                  .draws = Draws::of_pixels,
                  .make = make_random_mask},
    TransformKind{.name = "rgb_to_yuv", .is_pixel_wise = true, .make = make_rgb_to_yuv},
    TransformKind{.name = "to_float",
                  .takes_float32 = false,
                  .is_pixel_wise = true,
                  .is_point_wise = true,
                  .make = make_point_wise},
    TransformKind{
        .name = "scale", .is_pixel_wise = true, .is_point_wise = true, .make = make_point_wise},
    TransformKind{
        .name = "normalize", .is_pixel_wise = true, .is_point_wise = true, .make = make_point_wise},
};

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace

Result<Sample> PixelStage::apply(const Sample& sample, const RandomStream& draws,
                                 StageMemory* memory, OutputBuffer& room) const {
  begin_sample(sample.shape, draws, memory);
  std::uint8_t* bytes = nullptr;
  const Sample result = room.take(output().element, sample.shape, bytes);
  PixelRows rows{.rows = sample.shape.height,
                 .width = sample.shape.width,
                 .channels = sample.shape.channels,
                 .from_element = sample.element,
                 .from = sample.bytes.data(),
                 .to = bytes};
  rows.from_stride = rows.to_stride = rows.count();
  apply_rows(rows, memory);
  return result;
}

const TransformKind* find_transform(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &TransformKind::name);
  return found == kKinds.end() ? nullptr : found;
}

std::string transform_names() {
  std::string names;
  for (const TransformKind& kind : kKinds) {
    if (!names.empty()) names += ", ";
    names += kind.name;
  }
  return names;
}

tl::unexpected<Error> bad_parameter(const Transform& transform, const char* name,
                                    const std::string& problem, std::string remedy) {
  return fail(ErrorKind::invalid, "`" + std::string(name) + "` " + problem,
              "input." + transform.type, std::move(remedy));
}

std::optional<double> number_of(const Json& value) {
  std::optional<double> number;
  if (value.is_number()) {
    number = value.get<double>();
  } else if (value.is_string()) {
    const std::string_view text = value.get_ref<const std::string&>();
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) {
      number = number_in(text);
    } else {
      const auto above = number_in(text.substr(0, slash));
      const auto below = number_in(text.substr(slash + 1));
      if (above && below) number = *above / *below;
    }
  }
  return number && std::isfinite(*number) ? number : std::nullopt;
}

Result<Interval> interval_parameter(const Transform& transform, const char* name,
                                    Interval otherwise, Interval within) {
  const Json& value = member(transform.parameters, name);
  if (value.is_null()) return otherwise;
  const bool is_pair = value.is_array() && value.size() == 2;
  const auto lowest = number_of(is_pair ? value[0] : Json());
  const auto highest = number_of(is_pair ? value[1] : Json());
  if (!lowest || !highest || *lowest < within.lowest || *highest > within.highest ||
      *lowest > *highest) {
    return bad_parameter(
        transform, name, "is not a pair of numbers [lowest, highest]",
        "give numbers from " + number_text(within.lowest) + " to " + number_text(within.highest));
  }
  return Interval{*lowest, *highest};
}

Result<Size> size_parameter(const Transform& transform) {
  constexpr int kMax = 65'536;
  const Json& value = member(transform.parameters, "size");
  const bool is_pair = value.is_array() && value.size() == 2;
  const Json& height = is_pair ? value[0] : value;
  const Json& width = is_pair ? value[1] : value;
  for (const Json* side : {&height, &width}) {
    if (!side->is_number_integer() || *side < 1 || *side > kMax) {
      return bad_parameter(transform, "size", "is not a number of pixels",
                           "give one such as 224, or [height, width]");
    }
  }
  return Size{height.get<int>(), width.get<int>()};
}

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

Result<std::vector<float>> fill_parameter(const Transform& transform, const char* name,
                                          const SampleType& input) {
  constexpr float kMaxByte = 255;
  if (member(transform.parameters, name).is_null()) {
    return std::vector<float>(static_cast<std::size_t>(input.channels), 0.0F);
  }
  auto values = per_channel(transform, name, input.channels);
  if (!values || input.element == Element::float32) return values;
  for (const float value : *values) {
    if (value >= 0 && value <= kMaxByte && value == std::trunc(value)) continue;
    return bad_parameter(
        transform, name, "is not a byte, and the pixels are bytes",
        "give whole numbers from 0 to 255, or put " + transform.type + " after to_float");
  }
  return values;
}

}  // namespace autotuned::input
