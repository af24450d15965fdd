// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/device_use.hpp"

#include <gtest/gtest.h>

#include "profiler/analysis/events/tensor_cores.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

TraceText& busy(TraceText& text, double start, double end, double blocks, double occupancy,
                const std::string& name = "k", int device = 0) {
  return text.event(
      "kernel", name, start, end - start,
      {{"device", device}, {"blocks per SM", blocks}, {"est. achieved occupancy %", occupancy}});
}

Stretches only(std::int64_t start_ns, std::int64_t end_ns) {
  return Stretches(Intervals{{start_ns, end_ns}});
}

// The example of the plugin's own tests.
TEST(DeviceUse, MatchesTheKnownExample) {
  TraceText text;
  busy(text, 130, 140, .5, 60);
  busy(text, 135, 150, .6, 10);
  busy(text, 150, 150, .3, 20);
  busy(text, 145, 170, .3, 100);
  busy(text, 200, 220, 10.5, 30);
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace);
  const auto uses = device_uses(*trace, only(100'000, 220'000));
  ASSERT_EQ(uses.size(), 1U);
  EXPECT_DOUBLE_EQ(uses[0].utilization, 0.5);
  EXPECT_NEAR(uses[0].sm_efficiency.value(), 0.3416667, 1e-6);
  EXPECT_NEAR(uses[0].achieved_occupancy_percent.value(), 55, 1e-9);
}

TEST(DeviceUse, CountsOnlyTheWindow) {
  TraceText text;
  busy(text, 0, 100, 1, 50);
  busy(text, 150, 250, .5, 100);
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace);
  const auto uses = device_uses(*trace, only(50'000, 200'000));
  EXPECT_NEAR(uses[0].utilization, 100.0 / 150, 1e-12);
  EXPECT_NEAR(uses[0].sm_efficiency.value(), 75.0 / 150, 1e-12);
  EXPECT_NEAR(uses[0].achieved_occupancy_percent.value(), 75, 1e-9);
}

TEST(DeviceUse, LeavesOutWhatTheTraceDoesNotSay) {
  TraceText text;
  text.event("kernel", "k", 0, 10, {{"device", 2}});
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace);
  const auto uses = device_uses(*trace, only(0, 20'000));
  ASSERT_EQ(uses.size(), 1U);
  EXPECT_EQ(uses[0].device, 2);
  EXPECT_DOUBLE_EQ(uses[0].utilization, 0.5);
  EXPECT_FALSE(uses[0].sm_efficiency);
  EXPECT_FALSE(uses[0].achieved_occupancy_percent);
}

TEST(DeviceUse, TellsTensorCoresByDevice) {
  TraceText text;
  busy(text, 0, 30, 1, 1, "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_nn");
  busy(text, 30, 40, 1, 1, "ampere_sgemm_128x64_nn");
  busy(text, 0, 10, 1, 1, "triton_poi_fused_add_0", 1);
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace);
  const auto uses = device_uses(*trace, only(0, 40'000));
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_DOUBLE_EQ(uses[0].tensor_core_ratio, 0.75);
  EXPECT_DOUBLE_EQ(uses[1].tensor_core_ratio, 0);
  EXPECT_DOUBLE_EQ(uses[1].unknown_tensor_core_ratio, 1);
}

TEST(TensorCores, KnowsNamesOfEveryGeneration) {
  for (const char* name :
       {"volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "turing_fp16_s1688cudnn_fp16_128x128",
        "ampere_bf16_s16816gemm_bf16_128x64", "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32",
        "sm90_xmma_wgrad_implicit_gemm_f16", "nvjet_tst_128x128_64x4_1x2_h_bz_coopA",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "cutlass_80_tensorop_s1688gemm_128x128"}) {
    EXPECT_EQ(tensor_cores_of(name), TensorCores::yes) << name;
  }
  for (const char* name :
       {"ampere_sgemm_128x64_nn", "cutlass_80_simt_sgemm_256x128_8x4_nn_align1",
        "void at::native::vectorized_elementwise_kernel", "volta_sgemm_32x128_nt",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)"}) {
    EXPECT_EQ(tensor_cores_of(name), TensorCores::no) << name;
  }
}

TEST(TensorCores, KnowsHopperAndBlackwell) {
  for (const char* name :
       {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<Sm90TmaWarpSpecialized>>",
        "void cutlass::device_kernel<flash::FlashAttnFwdSm90<Mainloop>>",
        "cutlass3x_sm100_tensorop_gemm_bf16_128x256x64", "nvjet_sm100_tst_256x128_64x6_2x1_2cta_h",
        "sm100_xmma_fprop_implicit_gemm_bf16", "cudnn_generated_fort_native_sdpa_sm100_flash_fprop",
        "void cutlass::device_kernel<CollectiveMma<MainloopSm120TmaWarpSpecialized>>"}) {
    EXPECT_EQ(tensor_cores_of(name), TensorCores::yes) << name;
  }
}

// The same attention, on cores and for types that have tensor cores, and on others.
TEST(TensorCores, TellAttentionApart) {
  for (const char* name :
       {"fmha_cutlassF_f32_aligned_64x64_rf_sm70", "fmha_cutlassB_f32_notaligned_64x64_k64_sm50",
        "fmha_cutlassF_f16_aligned_64x64_rf_sm50", "fmha_cutlassB_f32_aligned_64x64_k32_sm75"}) {
    EXPECT_EQ(tensor_cores_of(name), TensorCores::no) << name;
  }
  for (const char* name :
       {"fmha_cutlassF_f16_aligned_64x64_rf_sm75", "fmha_cutlassF_f32_aligned_64x64_rf_sm80"}) {
    EXPECT_EQ(tensor_cores_of(name), TensorCores::yes) << name;
  }
}

TEST(TensorCores, SayNothingAboutKernelsThatAProgramNamed) {
  for (const char* name : {"triton_per_fused_0", "_attn_fwd", "matmul_kernel", "rms_norm_fwd_0d1d2",
                           "void cutlass::Kernel2<Mine>"}) {
    EXPECT_EQ(tensor_cores_of(name), TensorCores::unknown) << name;
  }
}

}  // namespace
}  // namespace autotuned::analysis
