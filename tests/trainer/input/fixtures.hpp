// SPDX-License-Identifier: Apache-2.0
// What PyTorch, torchvision and PIL made, from data/ (see make_fixtures.py there), and transforms run on it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "tests/places.hpp"
#include "trainer/input/transforms/pipeline.hpp"

namespace autotuned::input {

inline std::filesystem::path fixture_path(const std::string& name) {
  return autotuned::tests::source_folder() / "tests/trainer/input/data" / name;
}

inline std::vector<std::uint8_t> bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The names and facts of all fixtures.
inline const Json& fixture_index() {
  static const Json index = [] {
    const auto bytes = bytes_of_file(fixture_path("fixtures.json"));
    return Json::parse(bytes.begin(), bytes.end());
  }();
  return index;
}

struct Fixture {
  Element element = Element::uint8;
  SampleShape shape;
  std::vector<std::uint8_t> bytes;

  [[nodiscard]] std::vector<float> floats() const {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  [[nodiscard]] Sample sample() const { return {element, shape, bytes}; }
  [[nodiscard]] SampleType type() const { return type_of(element, shape); }
};

inline Fixture fixture(const std::string& name) {
  const Json& facts = fixture_index().at(name);
  const auto shape = facts.at("shape").get<std::vector<int>>();
  return {facts.at("type") == "uint8" ? Element::uint8 : Element::float32,
          {shape.at(0), shape.at(1), shape.at(2)},
          bytes_of_file(fixture_path(name + ".raw"))};
}

inline Pipeline pipeline_of(const SampleType& stored, const std::vector<Transform>& transforms,
                            std::uint64_t seed = 1) {
  auto pipeline = Pipeline::compile(stored, transforms, seed);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message());
  return pipeline ? std::move(*pipeline) : Pipeline();
}

// T is the type of the result, uint8_t or float.
template <class T>
std::vector<T> run(const Pipeline& pipeline, const Sample& sample, Position position = {}) {
  std::vector<T> out(static_cast<std::size_t>(pipeline.shape().elements()));
  auto scratch = pipeline.make_scratch();
  const PixelType type = sizeof(T) == 1 ? PixelType::uint8 : PixelType::float32;
  const auto done = pipeline.run(sample, position, type, out.data(), scratch);
  EXPECT_TRUE(done) << (done ? "" : done.error().message());
  return out;
}

}  // namespace autotuned::input
