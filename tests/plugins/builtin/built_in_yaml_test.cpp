// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

TEST(IntraOpThreads, WalksFromTheIncumbent) {
  Answers answers("intra_op_threads");
  Json json = situation("fashion_cnn_cpu");
  answers.proposes("2 threads on 4 CPUs", json, {{"threads.intra_op", 1}});
  // The cores first, then the neighbour.
  answers.proposes("4 threads", json, {{"threads.intra_op", 2}},
                   {{"incumbent", {{"threads.intra_op", 4}}}});
  answers.declines("1 CPU", json, {{"environment", {{"cpus_allowed", 1}}}});
}

TEST(MemoryMalloc, KeepsLargeBlocksOnTheCpu) {
  Answers answers("memory_malloc");
  Json json = situation("fashion_cnn_cpu");
  const Json keep = {{"memory.malloc", "keep"}};
  const Json answer = answers.proposes("12 % of the time in the kernel", json, keep);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.8 * 0.12), 1e-9);
  answers.declines("it is set", json, {{"incumbent", keep}});
  answers.declines("another allocator", json, {{"incumbent", {{"memory.allocator", "jemalloc"}}}});
  // A script has started with its allocator: that is no knob.
  json["incumbent"] = {{"memory.malloc", "default"}};
  json["job"]["allocator"] = "glibc";
  answers.proposes("no knob of the allocator", json, keep);
  json["permissions"]["option"] = "--allow";
  answers.proposes("a script", json, keep);
  answers.declines("no measurement", json, {{"metrics", {{"cpu.kernel_ratio", nullptr}}}});
  answers.declines("a GPU", situation("resnet18_gpu"));
}

TEST(ForeachOptimizer, IsForScriptsThatAreNotFused) {
  Answers answers("foreach_optimizer");
  Json json = situation("fashion_cnn_cpu");
  answers.declines("no script", json);
  json["knobs"]["optimizer.foreach"] = json["knobs"]["optimizer.fused"];
  json["incumbent"]["optimizer.foreach"] = false;
  json["incumbent"]["optimizer.fused"] = false;
  json["metrics"]["step.optimizer_ratio"] = 0.25;
  const Json answer = answers.proposes("a script", json, {{"optimizer.foreach", true}});
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.2 * 0.25), 1e-9);
  answers.declines("a fused optimizer", json, {{"incumbent", {{"optimizer.fused", true}}}});
}

// Products are no convolutions, and the time in which a host starts kernels is not theirs: a trace knows better.
TEST(ChannelsLast, FollowsTheShareOfConvolutions) {
  Answers answers("channels_last");
  Json json = situation("fashion_cnn_cpu");
  const Json change = {{"layout.memory_format", "channels_last"}};
  EXPECT_NEAR(first_share(answers.proposes("62 % in products", json, change)), 0.62, 1e-9);
  answers.declines("20 % in products", json, {{"metrics", {{"operators.gemm_conv_ratio", 0.2}}}});
  answers.declines("no filters, as in a model of tokens", json,
                   {{"job", {{"has_filters", false}}}});
  answers.declines("a trace with 10 % in convolutions", json,
                   {{"metrics", {{"operators.convolution_share_ratio", 0.1}}}});
  json["metrics"]["operators.gemm_conv_ratio"] = 0.03;
  json["metrics"]["operators.convolution_share_ratio"] = 0.8;
  json["metrics"]["parts.kernel_ratio"] = 0.5;
  EXPECT_NEAR(first_share(answers.proposes("a trace with 80 %", json, change)), 0.4, 1e-9);
}

TEST(FusedOptimizer, FollowsTheShareOfTheOptimizer) {
  Answers answers("fused_optimizer");
  const Json json = situation("fashion_cnn_cpu");
  const Json answer = answers.proposes("5 % in the optimizer", json, {{"optimizer.fused", true}});
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.025), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.05, 1e-9);
  answers.declines("no consent", json, {{"permissions", {{"numerics", false}}}});
  for (const char* optimizer : {"nadam", "rmsprop", "lion"})
    answers.declines(optimizer, json, {{"recipe", {{"optimizer", optimizer}}}});
}

TEST(Tf32, OnlyOnAGpuInThirtyTwoBit) {
  Answers answers("tf32");
  answers.declines("a CPU", situation("fashion_cnn_cpu"));
  Json json = situation("resnet18_gpu");
  const Json change = {{"precision.tf32", true}};
  answers.proposes("70 % in products", json, change);
  json["metrics"]["operators.gemm_conv_share_ratio"] = 0.9;
  json["metrics"]["parts.kernel_ratio"] = 0.5;
  EXPECT_NEAR(first_share(answers.proposes("a trace with 90 %", json, change)), 0.45, 1e-9);
  answers.declines("16 bits", json, {{"incumbent", {{"precision.autocast", "bf16"}}}});
}

TEST(CudnnBenchmark, OnlyOnAGpu) {
  Answers answers("cudnn_benchmark");
  answers.declines("a CPU", situation("fashion_cnn_cpu"));
  Json json = situation("resnet18_gpu");
  const Json change = {{"cudnn.benchmark", true}};
  answers.proposes("a GPU", json, change);
  const Json no_filters = {{"job", {{"has_filters", false}}}};
  answers.declines("no filters, as in a model of tokens", json, no_filters);
  json["metrics"]["operators.gemm_conv_ratio"] = 0.01;
  answers.declines("1 % in products", json);
  json["metrics"]["operators.convolution_share_ratio"] = 0.5;
  json["metrics"]["parts.kernel_ratio"] = 0.9;
  EXPECT_NEAR(first_share(answers.proposes("a trace with 50 %", json, change)), 0.45, 1e-9);
  answers.proposes("a trace with 50 % in convolutions of sequences", json, change, no_filters);
}

TEST(DeferredLossReading, OnlyWhereTheLossIsReadAtEveryStep) {
  Answers answers("deferred_loss_reading");
  Json json = situation("resnet18_gpu");
  const Json change = {{"train.loss_reading", "deferred"}};
  answers.declines("it is deferred", json);
  json["incumbent"]["train.loss_reading"] = "every_step";
  json["metrics"]["step.loss_reading_ratio"] = 0.37;
  answers.proposes("37 % in reading", json, change);
  tell(json, change, "rejected", 1.0);
  answers.declines("it was tried", json);
}

TEST(CropFirst, OnlyWhereACropMayMove) {
  Answers answers("crop_first");
  Json json = situation("fashion_cnn_cpu");
  answers.declines("no crop", json);
  json["job"]["can_move_crop"] = true;
  answers.proposes("a crop", json, {{"input.order", "crop_first"}});
  answers.declines("decoding crops", json, {{"incumbent", {{"input.decode", "crop"}}}});
}

TEST(CropDecoding, OnlyWhereTheStepWaitsForPicturesThatAreCropped) {
  Answers answers("crop_decoding");
  Json json = situation("fashion_cnn_cpu");
  answers.declines("no crop", json);
  json["job"]["can_decode_crop"] = true;
  answers.proposes("a crop", json, {{"input.decode", "crop"}});
  answers.declines("1 % in loading", json, {{"metrics", {{"loader.cost_ratio", 0.01}}}});
}

// Consent to the knob is consent to other pixels; the index knows pictures in their own size alone.
TEST(ScaledDecoding, OnlyWithConsentWhereAResizeMakesPicturesSmaller) {
  Answers answers("scaled_decoding");
  Json json = situation("fashion_cnn_cpu");
  json["permissions"] = {{"exact", true}, {"numerics", true}, {"semantics", true}};
  answers.declines("no resize", json);
  json["job"]["decode_scale"] = "quarter";
  const Json half = {{"input.decode_scale", "half"}};
  const Json quarter = {{"input.decode_scale", "quarter"}};
  answers.proposes("a resize to a quarter", json, half);
  answers.proposes("an index", json, {{"input.decode_scale", "half"}, {"input.jpeg_index", false}},
                   {{"incumbent", {{"input.jpeg_index", true}}}});
  answers.declines("no consent", json, {{"permissions", {{"semantics", false}}}});
  answers.declines("1 % in loading", json, {{"metrics", {{"loader.cost_ratio", 0.01}}}});
  json["incumbent"]["input.jpeg_index"] = false;
  tell(json, half, "rejected", 1.0);
  answers.proposes("half was tried", json, quarter);
  tell(json, quarter, "rejected", 1.0);
  answers.declines("both were tried", json);
}

TEST(DevicePixels, OnlyOnADeviceOfItsOwn) {
  Answers answers("device_pixels");
  Json json = situation("fashion_cnn_cpu");
  json["job"]["can_finish_on_device"] = true;
  answers.declines("a CPU", json);
  json["job"]["device"] = "cuda:0";
  answers.proposes("a GPU", json, {{"input.point_ops", "device"}});
  answers.declines("one table", json, {{"job", {{"can_finish_on_device", false}}}});
}

TEST(InputDilation, OnlyWhereMasksAreDilated) {
  Answers answers("input_dilation");
  Json json = situation("fashion_cnn_cpu");
  answers.declines("no masks", json);
  json["job"]["dilates"] = true;
  const Json bits = {{"input.dilation", "bits"}};
  answers.proposes("masks", json, bits);
  answers.proposes("shifts", json, bits, {{"incumbent", {{"input.dilation", "shifts"}}}});
  answers.declines("it is set", json, {{"incumbent", bits}});
}

TEST(PointOps, OnePassFirstThenTheBatch) {
  Answers answers("point_ops");
  Json json = situation("fashion_cnn_cpu");
  answers.declines("no transforms of pixels", json);
  json["job"]["pixel_stages"] = 3;
  answers.proposes("three of them", json, {{"input.point_ops", "fused"}});
  json["incumbent"]["input.point_ops"] = "fused";
  answers.proposes("one pass", json, {{"input.point_ops", "per_batch"}});
  tell(json, {{"input.point_ops", "per_batch"}}, "rejected", 0.9);
  answers.declines("both were tried", json);
}

}  // namespace
}  // namespace autotuned::plugins
