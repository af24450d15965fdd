// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(IntraOpThreads, WalksFromTheIncumbent) {
  Json json = situation("fashion_cnn_cpu");
  EXPECT_EQ(first_change(ask("intra_op_threads", json)), Json({{"threads.intra_op", 1}}));
  EXPECT_EQ(first_reason(ask("intra_op_threads", json)),
            "each operator is shared by 2 threads on 4 CPUs (2 cores)");
  json["incumbent"]["threads.intra_op"] = 4;
  // The cores first, then the neighbour.
  EXPECT_EQ(first_change(ask("intra_op_threads", json)), Json({{"threads.intra_op", 2}}));
  json["environment"]["cpus_allowed"] = 1;
  EXPECT_THAT(none_because(ask("intra_op_threads", json)), HasSubstr("may use only one CPU"));
}

TEST(MemoryMalloc, KeepsLargeBlocksOnTheCpu) {
  Json json = situation("fashion_cnn_cpu");
  const Json answer = ask("memory_malloc", json);
  EXPECT_EQ(first_change(answer), Json({{"memory.malloc", "keep"}}));
  EXPECT_THAT(first_reason(answer), AllOf(HasSubstr("12 %"), HasSubstr("900 page faults")));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.8 * 0.12), 1e-9);
  json["incumbent"]["memory.malloc"] = "keep";
  EXPECT_THAT(none_because(ask("memory_malloc", json)), HasSubstr("is set or was tried"));
  json["incumbent"]["memory.allocator"] = "jemalloc";
  EXPECT_THAT(none_because(ask("memory_malloc", json)), HasSubstr("allocator is jemalloc"));
  // A script has started with its allocator: that is no knob.
  json["incumbent"] = {{"memory.malloc", "default"}};
  json["job"]["allocator"] = "glibc";
  EXPECT_EQ(first_change(ask("memory_malloc", json)), Json({{"memory.malloc", "keep"}}));
  json["permissions"]["option"] = "--allow";
  EXPECT_EQ(first_change(ask("memory_malloc", json)), Json({{"memory.malloc", "keep"}}));
  json["metrics"].erase("cpu.kernel_ratio");
  EXPECT_THAT(none_because(ask("memory_malloc", json)), HasSubstr("was not measured"));
  EXPECT_THAT(none_because(ask("memory_malloc", situation("resnet18_gpu"))),
              HasSubstr("does not run on the CPU"));
}

TEST(ForeachOptimizer, IsForScriptsThatAreNotFused) {
  Json json = situation("fashion_cnn_cpu");
  EXPECT_THAT(none_because(ask("foreach_optimizer", json)), HasSubstr("no knob optimizer.foreach"));
  json["knobs"]["optimizer.foreach"] = json["knobs"]["optimizer.fused"];
  json["incumbent"]["optimizer.foreach"] = false;
  json["incumbent"]["optimizer.fused"] = false;
  json["metrics"]["step.optimizer_ratio"] = 0.25;
  const Json answer = ask("foreach_optimizer", json);
  EXPECT_EQ(first_change(answer), Json({{"optimizer.foreach", true}}));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.2 * 0.25), 1e-9);
  json["incumbent"]["optimizer.fused"] = true;
  EXPECT_THAT(none_because(ask("foreach_optimizer", json)), HasSubstr("is fused"));
}

TEST(ChannelsLast, FollowsTheShareOfConvolutions) {
  Json json = situation("fashion_cnn_cpu");
  const Json answer = ask("channels_last", json);
  EXPECT_EQ(first_change(answer), Json({{"layout.memory_format", "channels_last"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("up to 62 % of the time"));
  EXPECT_NEAR(first_share(answer), 0.62, 1e-9);
  json["metrics"]["operators.gemm_conv_ratio"] = 0.2;
  EXPECT_THAT(none_because(ask("channels_last", json)), HasSubstr("at most 20 % of the time"));
}

// Products are no convolutions, and the time in which a host starts kernels is not theirs.
TEST(ChannelsLast, BelievesTheTrace) {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["operators.convolution_share_ratio"] = 0.1;
  EXPECT_THAT(none_because(ask("channels_last", json)), HasSubstr("at most 10 % of the time"));
  json["metrics"]["operators.gemm_conv_ratio"] = 0.03;
  json["metrics"]["operators.convolution_share_ratio"] = 0.8;
  json["metrics"]["parts.kernel_ratio"] = 0.5;
  EXPECT_NEAR(first_share(ask("channels_last", json)), 0.4, 1e-9);
}

TEST(FusedOptimizer, FollowsTheShareOfTheOptimizer) {
  Json json = situation("fashion_cnn_cpu");
  const Json answer = ask("fused_optimizer", json);
  EXPECT_EQ(first_change(answer), Json({{"optimizer.fused", true}}));
  EXPECT_THAT(first_reason(answer), AllOf(HasSubstr("sgd takes 5.0 %"), HasSubstr("50,186")));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.025), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.05, 1e-9);
  json["permissions"]["numerics"] = false;
  EXPECT_THAT(none_because(ask("fused_optimizer", json)), HasSubstr("not permitted"));
  for (const char* optimizer : {"nadam", "rmsprop", "lion"}) {
    json = situation("fashion_cnn_cpu");
    json["recipe"]["optimizer"] = optimizer;
    EXPECT_THAT(none_because(ask("fused_optimizer", json)), HasSubstr("no fused kernel"));
  }
}

TEST(Tf32, OnlyOnAGpuInThirtyTwoBit) {
  EXPECT_THAT(none_because(ask("tf32", situation("fashion_cnn_cpu"))), HasSubstr("on the CPU"));
  Json json = situation("resnet18_gpu");
  EXPECT_EQ(first_change(ask("tf32", json)), Json({{"precision.tf32", true}}));
  EXPECT_THAT(first_reason(ask("tf32", json)), HasSubstr("70 % of the time"));
  json["metrics"]["operators.gemm_conv_share_ratio"] = 0.9;
  json["metrics"]["parts.kernel_ratio"] = 0.5;
  EXPECT_THAT(first_reason(ask("tf32", json)), HasSubstr("take 90 % of the time"));
  EXPECT_NEAR(first_share(ask("tf32", json)), 0.45, 1e-9);
  json["incumbent"]["precision.autocast"] = "bf16";
  EXPECT_THAT(none_because(ask("tf32", json)), HasSubstr("already computes in 16 bits"));
}

TEST(CudnnBenchmark, OnlyOnAGpu) {
  EXPECT_THAT(none_because(ask("cudnn_benchmark", situation("fashion_cnn_cpu"))),
              HasSubstr("on the CPU"));
  Json json = situation("resnet18_gpu");
  EXPECT_EQ(first_change(ask("cudnn_benchmark", json)), Json({{"cudnn.benchmark", true}}));
  json["metrics"]["operators.gemm_conv_ratio"] = 0.01;
  EXPECT_THAT(none_because(ask("cudnn_benchmark", json)), HasSubstr("at most 1.0 % of the time"));
  json["metrics"]["operators.convolution_share_ratio"] = 0.5;
  json["metrics"]["parts.kernel_ratio"] = 0.9;
  EXPECT_NEAR(first_share(ask("cudnn_benchmark", json)), 0.45, 1e-9);
}

TEST(DeferredLossReading, OnlyWhereTheLossIsReadAtEveryStep) {
  Json json = situation("resnet18_gpu");
  EXPECT_THAT(none_because(ask("deferred_loss_reading", json)),
              HasSubstr("not read after every step"));
  json["incumbent"]["train.loss_reading"] = "every_step";
  json["metrics"]["step.loss_reading_ratio"] = 0.37;
  const Json answer = ask("deferred_loss_reading", json);
  EXPECT_EQ(first_change(answer), Json({{"train.loss_reading", "deferred"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("takes 37 % of the step"));
  tell(json, {{"train.loss_reading", "deferred"}}, "rejected", 1.0);
  EXPECT_FALSE(none_because(ask("deferred_loss_reading", json)).empty());
}

TEST(CropFirst, OnlyWhereACropMayMove) {
  Json json = situation("fashion_cnn_cpu");
  EXPECT_THAT(none_because(ask("crop_first", json)), HasSubstr("no crop follows"));
  json["job"]["can_move_crop"] = true;
  const Json answer = ask("crop_first", json);
  EXPECT_EQ(first_change(answer), Json({{"input.order", "crop_first"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("costs the step 6.0 %"));
  json["incumbent"]["input.decode"] = "crop";
  EXPECT_THAT(none_because(ask("crop_first", json)), HasSubstr("input.decode is crop"));
}

TEST(CropDecoding, OnlyWhereTheStepWaitsForPicturesThatAreCropped) {
  Json json = situation("fashion_cnn_cpu");
  EXPECT_THAT(none_because(ask("crop_decoding", json)), HasSubstr("no JPEG picture is cropped"));
  json["job"]["can_decode_crop"] = true;
  EXPECT_EQ(first_change(ask("crop_decoding", json)), Json({{"input.decode", "crop"}}));
  json["metrics"]["loader.cost_ratio"] = 0.01;
  EXPECT_THAT(none_because(ask("crop_decoding", json)), HasSubstr("costs the step only 1.0 %"));
}

// Consent to the knob is consent to other pixels; the index knows pictures in their own size alone.
TEST(ScaledDecoding, OnlyWithConsentWhereAResizeMakesPicturesSmaller) {
  Json json = situation("fashion_cnn_cpu");
  json["permissions"] = {{"exact", true}, {"numerics", true}, {"semantics", true}};
  EXPECT_THAT(none_because(ask("scaled_decoding", json)), HasSubstr("resized to half its size"));
  json["job"]["decode_scale"] = "quarter";
  const Json half = {{"input.decode_scale", "half"}};
  const Json quarter = {{"input.decode_scale", "quarter"}};
  EXPECT_EQ(first_change(ask("scaled_decoding", json)), half);
  json["incumbent"]["input.jpeg_index"] = true;
  EXPECT_EQ(first_change(ask("scaled_decoding", json)),
            Json({{"input.decode_scale", "half"}, {"input.jpeg_index", false}}));
  json["incumbent"]["input.jpeg_index"] = false;
  tell(json, half, "rejected", 1.0);
  EXPECT_EQ(first_change(ask("scaled_decoding", json)), quarter);
  tell(json, quarter, "rejected", 1.0);
  EXPECT_FALSE(none_because(ask("scaled_decoding", json)).empty());
  json["trials"] = Json::array();
  json["permissions"]["semantics"] = false;
  EXPECT_THAT(none_because(ask("scaled_decoding", json)), HasSubstr("not permitted"));
  json["permissions"]["semantics"] = true;
  json["metrics"]["loader.cost_ratio"] = 0.01;
  EXPECT_THAT(none_because(ask("scaled_decoding", json)), HasSubstr("costs the step only 1.0 %"));
}

TEST(DevicePixels, OnlyOnADeviceOfItsOwn) {
  Json json = situation("fashion_cnn_cpu");
  json["job"]["can_finish_on_device"] = true;
  EXPECT_THAT(none_because(ask("device_pixels", json)), HasSubstr("runs on the CPU"));
  json["job"]["device"] = "cuda:0";
  const Json answer = ask("device_pixels", json);
  EXPECT_EQ(first_change(answer), Json({{"input.point_ops", "device"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("costs the step 6.0 %"));
  json["job"]["can_finish_on_device"] = false;
  EXPECT_THAT(none_because(ask("device_pixels", json)), HasSubstr("one table replaces it"));
}

TEST(InputDilation, OnlyWhereMasksAreDilated) {
  Json json = situation("fashion_cnn_cpu");
  EXPECT_THAT(none_because(ask("input_dilation", json)), HasSubstr("dilates no mask"));
  json["job"]["dilates"] = true;
  const Json answer = ask("input_dilation", json);
  EXPECT_EQ(first_change(answer), Json({{"input.dilation", "bits"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("dilated by convolution"));
  json["incumbent"]["input.dilation"] = "shifts";
  EXPECT_EQ(first_change(ask("input_dilation", json)), Json({{"input.dilation", "bits"}}));
  json["incumbent"]["input.dilation"] = "bits";
  EXPECT_FALSE(none_because(ask("input_dilation", json)).empty());
}

TEST(PointOps, OnePassFirstThenTheBatch) {
  Json json = situation("fashion_cnn_cpu");
  EXPECT_THAT(none_because(ask("point_ops", json)),
              HasSubstr("does not end with transforms of single pixels"));
  json["job"]["pixel_stages"] = 3;
  const Json answer = ask("point_ops", json);
  EXPECT_EQ(first_change(answer), Json({{"input.point_ops", "fused"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("3 transforms"));
  json["incumbent"]["input.point_ops"] = "fused";
  EXPECT_EQ(first_change(ask("point_ops", json)), Json({{"input.point_ops", "per_batch"}}));
  tell(json, {{"input.point_ops", "per_batch"}}, "rejected", 0.9);
  EXPECT_FALSE(none_because(ask("point_ops", json)).empty());
}

}  // namespace
}  // namespace autotuned::plugins
