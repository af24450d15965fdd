// SPDX-License-Identifier: Apache-2.0
// What is made behind the transfer against what the loader's threads make, bit for bit.
#include "trainer/feed/device_pass.hpp"

#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "trainer/input/common/random.hpp"
#include "trainer/input/transforms/pipeline.hpp"

namespace autotuned::trainer {
namespace {

using input::PointOps;

input::Pipeline pipeline_of(const input::SampleShape& shape,
                            const std::vector<input::Transform>& transforms, PointOps point_ops) {
  auto pipeline = input::Pipeline::compile(input::type_of(input::Element::uint8, shape), transforms,
                                           1, {.point_ops = point_ops});
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message());
  return pipeline ? std::move(*pipeline) : input::Pipeline();
}

// What the pipeline writes of a sample.
std::vector<std::uint8_t> written(const input::Pipeline& pipeline, const input::Sample& sample) {
  std::vector<std::uint8_t> out(pipeline.written_bytes(input::PixelType::float32));
  auto scratch = pipeline.make_scratch();
  const auto done = pipeline.run(sample, {2, 5}, input::PixelType::float32, out.data(), scratch);
  EXPECT_TRUE(done) << (done ? "" : done.error().message());
  return out;
}

TEST(DevicePass, GivesTheBitsOfTheLoader) {
  const input::SampleShape shape{3, 37, 41};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(input::mix64(i));
  const input::Sample sample{input::Element::uint8, shape, bytes};
  const input::Transform mask{"random_mask", {{"ratio", 0.25}, {"dilate", "4-neighbour"}}};
  const input::Transform yuv{"rgb_to_yuv"};
  const input::Transform to_float{"to_float"};
  const input::Transform scale{"scale", {{"by", "1/255"}}};
  const input::Transform third{"scale", {{"by", "1/3"}}};
  const input::Transform normalize{
      "normalize", {{"mean", {0.485, 0.456, 0.406}}, {"std", {0.229, 0.224, 0.225}}}};
  for (const auto& transforms : std::vector<std::vector<input::Transform>>{
           {mask, yuv, scale},
           {yuv},
           {to_float, normalize},
           {scale, normalize},
           {mask, third, yuv, third, normalize},
       }) {
    std::string names;
    for (const input::Transform& transform : transforms)
      names += transform.type + " ";
    SCOPED_TRACE(names);
    const input::Pipeline on_device = pipeline_of(shape, transforms, PointOps::device);
    std::vector<std::uint8_t> sent = written(on_device, sample);
    ASSERT_EQ(sent.size(), bytes.size());
    const DevicePass pass(on_device.device_formulas(), at::kCPU);
    ASSERT_FALSE(pass.is_empty());
    const at::Tensor made = pass.run(
        at::from_blob(sent.data(), {1, shape.channels, shape.height, shape.width}, at::kByte));
    const auto expected = written(pipeline_of(shape, transforms, PointOps::per_sample), sample);
    ASSERT_EQ(expected.size(), bytes.size() * sizeof(float));
    ASSERT_EQ(made.numel(), shape.elements());
    ASSERT_TRUE(made.is_contiguous());
    EXPECT_EQ(std::memcmp(made.const_data_ptr<float>(), expected.data(), expected.size()), 0);
  }
}

TEST(DevicePass, HasNothingToDoInOtherForms) {
  const input::Pipeline pipeline =
      pipeline_of({3, 4, 5}, {{"rgb_to_yuv"}, {"scale", {{"by", 2}}}}, PointOps::fused);
  EXPECT_TRUE(DevicePass(pipeline.device_formulas(), at::kCPU).is_empty());
}

}  // namespace
}  // namespace autotuned::trainer
