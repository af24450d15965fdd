// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/pixel_table.hpp"

#include <cassert>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace autotuned::input {
namespace {

constexpr std::size_t kBytes = 256;

tl::unexpected<Error> bad_parameter(const char* transform, const char* name,
                                    const std::string& problem, std::string remedy) {
  return fail(ErrorKind::invalid, "`" + std::string(name) + "` " + problem,
              "input." + std::string(transform), std::move(remedy));
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A number, or "a/b" as people write 1/255.
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

// One number per channel, from one for all or from a list.
Result<std::vector<float>> per_channel(const Transform& transform, const char* name, int channels) {
  const Json& value = member(transform.parameters, name);
  const auto count = static_cast<std::size_t>(channels);
  if (value.is_array() && value.size() != count) {
    return bad_parameter("normalize", name,
                         "has " + std::to_string(value.size()) + " numbers for " +
                             std::to_string(channels) + " channels",
                         "give one number per channel, or one for all");
  }
  std::vector<float> numbers;
  for (std::size_t c = 0; c < count; ++c) {
    const auto number = number_of(value.is_array() ? value[c] : value);
    const auto narrowed = static_cast<float>(number.value_or(0));
    if (!number || !std::isfinite(narrowed)) {
      return bad_parameter("normalize", name, "is not a finite number",
                           "give a number such as 0.5, or a list with one per channel");
    }
    numbers.push_back(narrowed);
  }
  return numbers;
}

Result<void> apply_scale(const Transform& transform, PixelTable& table) {
  const auto by = number_of(member(transform.parameters, "by"));
  if (!by) {
    return bad_parameter("scale", "by", "is not a finite number", "give a number such as 1/255");
  }
  for (float& value : table.values)
    value = static_cast<float>(static_cast<double>(value) * *by);
  return {};
}

Result<void> apply_normalize(const Transform& transform, PixelTable& table) {
  const auto mean = per_channel(transform, "mean", table.channels);
  if (!mean) return tl::unexpected(mean.error());
  const auto std = per_channel(transform, "std", table.channels);
  if (!std) return tl::unexpected(std.error());
  for (std::size_t c = 0; c < mean->size(); ++c) {
    if ((*std)[c] == 0) {
      return bad_parameter("normalize", "std", "is zero, which would divide by zero",
                           "give a positive number");
    }
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
      float& value = table.values[c * kBytes + byte];
      value = (value - (*mean)[c]) / (*std)[c];
    }
  }
  return {};
}

}  // namespace

Result<PixelTable> make_pixel_table(std::span<const Transform> transforms, int channels) {
  assert(channels >= 1);
  PixelTable table{channels, std::vector<float>(kBytes * static_cast<std::size_t>(channels))};
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    table.values[i] = static_cast<float>(i % kBytes);
  }
  for (const Transform& transform : transforms) {
    Result<void> applied;
    if (transform.type == "scale") {
      applied = apply_scale(transform, table);
    } else if (transform.type == "normalize") {
      applied = apply_normalize(transform, table);
    } else {
      return fail(ErrorKind::unsupported, "the transform `" + transform.type + "` is not known",
                  "input", "use scale and normalize");
    }
    if (!applied) return tl::unexpected(applied.error());
  }
  for (const float value : table.values) {
    if (!std::isfinite(value)) {
      return fail(ErrorKind::invalid, "the transforms take some byte to infinity", "input",
                  "use smaller factors, or a larger `std`");
    }
  }
  return table;
}

void convert_sample(const PixelTable& table, std::span<const std::uint8_t> bytes, float* out) {
  const std::size_t count = bytes.size() / static_cast<std::size_t>(table.channels);
  for (int c = 0; c < table.channels; ++c) {
    const float* values = table.channel(c).data();
    const std::uint8_t* from = bytes.data() + static_cast<std::size_t>(c) * count;
    float* to = out + static_cast<std::size_t>(c) * count;
    // Four at a time because loads may not move over stores that could change the table: twice the
    // speed of the plain loop, and as fast as exact arithmetic in vector registers.
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      const float v0 = values[from[i]];
      const float v1 = values[from[i + 1]];
      const float v2 = values[from[i + 2]];
      const float v3 = values[from[i + 3]];
      to[i] = v0;
      to[i + 1] = v1;
      to[i + 2] = v2;
      to[i + 3] = v3;
    }
    for (; i < count; ++i)
      to[i] = values[from[i]];
  }
}

}  // namespace autotuned::input
