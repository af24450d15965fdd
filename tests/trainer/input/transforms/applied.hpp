// SPDX-License-Identifier: Apache-2.0
// One transform on its own, with draws that are known.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {

inline constexpr std::uint64_t kDrawSeed = 5;

// T is the type of the result, uint8_t or float. `number` picks the draws.
template <class T>
std::vector<T> applied(const Transform& transform, const SampleShape& shape,
                       const std::vector<T>& pixels, std::uint64_t number = 0) {
  const Element element = sizeof(T) == 1 ? Element::uint8 : Element::float32;
  const auto stage = find_transform(transform.type)->make(transform, type_of(element, shape));
  EXPECT_TRUE(stage) << (stage ? "" : stage.error().message());
  if (!stage) return {};
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(pixels.data());
  OutputBuffer room;
  const auto memory = (*stage)->make_memory();
  const auto made = (*stage)->apply({element, shape, {bytes, pixels.size() * sizeof(T)}},
                                    RandomStream(kDrawSeed, number), memory.get(), room);
  EXPECT_TRUE(made) << (made ? "" : made.error().message());
  if (!made) return {};
  EXPECT_EQ(made->shape.elements() * static_cast<std::int64_t>(sizeof(T)),
            static_cast<std::int64_t>(made->bytes.size()));
  std::vector<T> result(made->bytes.size() / sizeof(T));
  std::memcpy(result.data(), made->bytes.data(), made->bytes.size());
  return result;
}

// Pixels that are all different from their neighbours, and never 0.
template <class T>
std::vector<T> numbered(const SampleShape& shape) {
  std::vector<T> pixels(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<T>(1 + i % 251);
  return pixels;
}

inline std::string problem(const Transform& transform, const SampleType& type) {
  const auto pipeline = Pipeline::compile(type, {&transform, 1}, 1);
  return pipeline ? "" : pipeline.error().message();
}

}  // namespace autotuned::input
