// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/findings/findings.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "profiler/analysis/profile.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "recipes/knobs.hpp"
#include "tests/places.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> ids_of(const std::vector<Finding>& findings) {
  std::vector<std::string> ids;
  for (const Finding& finding : findings)
    ids.emplace_back(finding.rule->id);
  return ids;
}

TraceAnalysis analysis_of(const TraceText& text) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return analyze(*trace);
}

TEST(Rules, NameOnlyWhatExists) {
  std::set<std::string> knobs;
  for (const recipes::Knob& knob : recipes::knobs_of(Machine{}))
    knobs.insert(knob.name);
  std::set<std::string> ids;
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(ids.insert(rule.id).second) << rule.id;
    const std::string plugin = rule.plugin;
    EXPECT_TRUE(plugin.empty() ||
                std::filesystem::exists(tests::source_folder() / "plugins/builtin" / plugin))
        << rule.id;
    const std::string knob = rule.knob;
    EXPECT_TRUE(knob.empty() || knobs.contains(knob)) << rule.id << " " << knob;
    EXPECT_TRUE(plugin.empty() || !knob.empty()) << rule.id;
    EXPECT_STRNE(rule.advice, "") << rule.id;
  }
}

TEST(Rules, FireOnTheirSideOfTheThreshold) {
  for (const Rule& rule : rules()) {
    const double side = rule.is_below ? -1e-6 : 1e-6;
    EXPECT_THAT(ids_of(findings_of({{rule.signal, rule.threshold + side}})), Contains(rule.id));
    EXPECT_THAT(ids_of(findings_of({{rule.signal, rule.threshold}})), Not(Contains(rule.id)));
  }
  EXPECT_THAT(findings_of({}), IsEmpty());
}

TEST(Rules, EvidenceHasTheFigures) {
  const auto findings =
      findings_of({{"device.utilization_ratio", 0.3154}, {"device.longest_gap_ns", 612e6}});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].evidence, "kernels run only during 31.5 % of the time");
  EXPECT_EQ(findings[1].evidence, "the longest gap in which the GPU does nothing takes 612 ms");
}

constexpr const char* kWaiting = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";

// Sixteen steps of 100 ms. Those that wait for long do so for 60 ms.
TraceText waiting_steps(const std::function<bool(int)>& is_long) {
  constexpr int kMs = 1000;
  TraceText text;
  for (int i = 0; i < 16; ++i) {
    const int at = i * 100 * kMs;
    text.step(i, at, 100 * kMs);
    text.event("user_annotation", kWaiting, at, (is_long(i) ? 60 : 2) * kMs);
    text.event("cpu_op", "aten::mm", at + 60 * kMs, 30 * kMs);
  }
  return text;
}

TEST(Findings, AWaitEveryFewStepsIsThatOfSlowWorkers) {
  const TraceAnalysis analysis = analysis_of(waiting_steps([](int i) { return i % 4 == 0; }));
  EXPECT_THAT(ids_of(analysis.findings), Contains("periodic_wait"));
  EXPECT_DOUBLE_EQ(analysis.signals.at("loading.wait_period_count"), 4);
  EXPECT_DOUBLE_EQ(analysis.signals.at("loading.periodic_wait_ratio"), 0.15);
  EXPECT_THAT(ids_of(analysis.findings), Contains("data_loading"));
  EXPECT_THAT(ids_of(analysis.findings), Not(Contains("loading_in_training_process")));
}

// Half of the waits are long.
TEST(Findings, TwoSlowWorkersAreARhythmToo) {
  const TraceAnalysis analysis = analysis_of(waiting_steps([](int i) { return i % 2 == 0; }));
  EXPECT_THAT(ids_of(analysis.findings), Contains("periodic_wait"));
  EXPECT_DOUBLE_EQ(analysis.signals.at("loading.wait_period_count"), 2);
  EXPECT_DOUBLE_EQ(analysis.signals.at("loading.periodic_wait_ratio"), 0.3);
}

// The last long wait comes a step late. The view and the finding say the same.
TEST(Findings, OneUnevenDistanceDoesNotHideTheRhythm) {
  const TraceText text = waiting_steps(
      [](int i) { return i == 0 || i == 2 || i == 4 || i == 6 || i == 8 || i == 10 || i == 13; });
  const TraceAnalysis analysis = analysis_of(text);
  EXPECT_THAT(ids_of(analysis.findings), Contains("periodic_wait"));
  EXPECT_DOUBLE_EQ(analysis.signals.at("loading.wait_period_count"), 2);
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace);
  EXPECT_EQ(profile_of(*trace, Depth::views).input.period, 2);
}

TEST(Findings, UnevenWaitsAreNotPeriodic) {
  const TraceText text = waiting_steps([](int i) { return i == 1 || i == 4 || i == 11; });
  EXPECT_THAT(ids_of(analysis_of(text).findings), Not(Contains("periodic_wait")));
}

TEST(Findings, LoadingWithoutANameMayHide) {
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 50, 50);
  EXPECT_THAT(ids_of(analysis_of(text).findings), Contains("loading_hidden"));
  text.event("user_annotation", kWaiting, 0, 50);
  EXPECT_THAT(ids_of(analysis_of(text).findings), Not(Contains("loading_hidden")));
}

TEST(Findings, PageableCopiesAndWaitingForThem) {
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::copy_", 0, 60, {{"External id", 1}});
  text.event("cuda_runtime", "cudaMemcpyAsync", 5, 5, {{"correlation", 1}, {"External id", 1}});
  text.event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 12, 30,
             {{"correlation", 1}, {"device", 0}, {"bytes", 1 << 20}});
  text.event("cuda_runtime", "cudaStreamSynchronize", 10, 40, {{"External id", 1}});
  const TraceAnalysis analysis = analysis_of(text);
  EXPECT_DOUBLE_EQ(analysis.signals.at("copies.pageable_ratio"), 0.3);
  EXPECT_DOUBLE_EQ(analysis.signals.at("waiting.synchronize_ratio"), 0.4);
  for (const char* id : {"pageable_copies", "exposed_copies", "heavy_transfer", "synchronization"})
    EXPECT_THAT(ids_of(analysis.findings), Contains(id));
}

TEST(Findings, ReadingANumberIsNotOtherWaiting) {
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::item", 0, 50);
  text.event("cpu_op", "aten::_local_scalar_dense", 1, 48, {{"External id", 1}});
  text.event("cuda_runtime", "cudaStreamSynchronize", 5, 40, {{"External id", 1}});
  text.kernel("a", 2, 10, 30);
  const TraceAnalysis analysis = analysis_of(text);
  EXPECT_THAT(ids_of(analysis.findings), Contains("scalar_reads"));
  EXPECT_DOUBLE_EQ(analysis.signals.at("waiting.synchronize_ratio"), 0);
}

TEST(Findings, GatherNamesWhatWaitsInsideOfItsBackward) {
  TraceText text;
  text.step(1, 0, 1000).event("cpu_op", "aten::gather", 10, 40);
  text.event("cuda_runtime", "cudaStreamSynchronize", 20, 30);  // of the forward
  text.event("cpu_op", "GatherBackward0", 100, 300, {{"External id", 1}});
  text.kernel("scatter", 110, 120, 200, {{"External id", 1}});
  text.event("cuda_runtime", "cudaStreamSynchronize", 130, 50);
  text.event("cuda_runtime", "cudaStreamSynchronize", 200, 50);
  text.event("cuda_runtime", "cudaMemcpyAsync", 260, 5, {{"correlation", 77}});
  text.event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 330, 20,
             {{"correlation", 77}, {"device", 0}, {"bytes", 4}}, 7);
  text.event("cuda_runtime", "cudaDeviceSynchronize", 500, 100);  // of no gather
  const TraceAnalysis analysis = analysis_of(text);
  const auto found = std::ranges::find(analysis.findings, std::string("gather_backward"),
                                       [](const Finding& finding) { return finding.rule->id; });
  ASSERT_NE(found, analysis.findings.end());
  EXPECT_THAT(found->evidence,
              testing::EndsWith("; inside its backward: 2 x cudaStreamSynchronize (100 µs), 1 x "
                                "Memcpy DtoH (Device -> Pageable) (20.0 µs)"));
  EXPECT_THAT(found->evidence, testing::EndsWith(found->where));
}

// Python between operators is no unexplained time, nor are the insides of modules, nor one pause.
TEST(Findings, OrdinaryRecordingsOfACpuAreExplained) {
  for (const char* name : {"classifier", "workers", "stacks", "unmarked"}) {
    const auto trace = traces::read_trace(tests::source_folder() / "tests/profiler/data" /
                                          (std::string(name) + ".pt.trace.json.gz"));
    ASSERT_TRUE(trace) << trace.error().message();
    EXPECT_THAT(ids_of(analyze(*trace).findings), Not(Contains("unexplained_time"))) << name;
  }
  TraceText text;
  text.step(1, 0, 10'000).event("user_annotation", kWaiting, 0, 100);
  text.event("cpu_op", "aten::mm", 100, 4'900).event("cpu_op", "aten::mm", 7'000, 3'000);
  EXPECT_DOUBLE_EQ(analysis_of(text).signals.at("step.residual_ratio"), 0.2);
  EXPECT_THAT(ids_of(analysis_of(text).findings), Contains("unexplained_time"));
  TraceText paused = text;
  for (const int at : {10'000, 20'000}) {
    paused.step(at / 10'000 + 1, at, 10'000).event("user_annotation", kWaiting, at, 100);
    paused.event("cpu_op", "aten::mm", at + 100, 9'900);
  }
  EXPECT_THAT(ids_of(analysis_of(paused).findings), Not(Contains("unexplained_time")));
  text.event("python_function", "nn.Module: Net_0", 50, 9'900);
  EXPECT_DOUBLE_EQ(analysis_of(text).signals.at("step.residual_ratio"), 0);
}

TEST(Findings, RocmSaysWhatIsMissing) {
  TraceText text;
  text.step(1, 0, 100).event("hip_runtime", "hipExtLaunchKernel", 5, 3, {{"correlation", 1}});
  text.event("kernel", "Cijk_Ailk_Bljk_SB_MT64x64", 10, 60,
             {{"correlation", 1}, {"device", 0}, {"stream", 3}}, 3);
  const TraceAnalysis analysis = analysis_of(text);
  ASSERT_EQ(analysis.devices.size(), 1U);
  EXPECT_DOUBLE_EQ(analysis.devices[0].utilization, 0.6);
  EXPECT_THAT(
      analysis.notes,
      Contains("recorded with ROCm, which does not report: blocks per multiprocessor, and so "
               "their efficiency; occupancy; which kernels use matrix cores"));
  TraceText cuda;
  EXPECT_THAT(analysis_of(cuda.step(1, 0, 100).kernel("a", 5, 10, 60)).notes,
              Not(Contains(HasSubstr("ROCm"))));
}

TEST(Findings, FillingGradientsButNotReleasingThem) {
  TraceText text;
  text.step(1, 0, 100).event("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", 10, 20);
  EXPECT_DOUBLE_EQ(analysis_of(text).signals.at("gradients.fill_ratio"), 0);
  text.event("cpu_op", "aten::zero_", 12, 5);
  EXPECT_DOUBLE_EQ(analysis_of(text).signals.at("gradients.fill_ratio"), 0.2);
}

TEST(Findings, TensorCoresThatNobodyUses) {
  TraceText text;
  text.json()["deviceProperties"] = {{{"id", 0}, {"computeMajor", 8}, {"totalGlobalMem", 1000}}};
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 0, 10, {{"External id", 1}});
  text.kernel("ampere_sgemm_128x64_nn", 5, 10, 60, {{"External id", 1}});
  EXPECT_THAT(ids_of(analysis_of(text).findings), Contains("tensor_cores_unused"));
  TraceText rocm = text;
  rocm.event("cuda_runtime", "hipLaunchKernel", 5, 1);
  EXPECT_THAT(ids_of(analysis_of(rocm).findings), Not(Contains("tensor_cores_unused")));
  text.kernel("ampere_fp16_s16816gemm", 6, 75, 5, {{"External id", 1}});
  EXPECT_THAT(ids_of(analysis_of(text).findings), Not(Contains("tensor_cores_unused")));
}

TEST(Findings, MemoryOfTheDevice) {
  TraceText text;
  text.step(1, 0, 100).kernel("a", 5, 10, 60).allocated(300);
  EXPECT_THAT(ids_of(analysis_of(text).findings), Contains("memory_unused"));
  text.allocated(950);
  EXPECT_THAT(ids_of(analysis_of(text).findings), Contains("memory_full"));
}

TEST(Findings, ADeviceThatWaitsForLaunches) {
  TraceText text;
  text.step(1, 0, 100);
  for (int i = 0; i < 10; ++i)
    text.kernel("tiny", i * 10, i * 10 + 5, 2);
  const TraceAnalysis analysis = analysis_of(text);
  // Nine gaps of eight between the kernels: each was launched after the one before had ended.
  EXPECT_DOUBLE_EQ(analysis.signals.at("device.launch_wait_ratio"), 0.72);
  EXPECT_THAT(ids_of(analysis.findings), Contains("launch_bound"));
  EXPECT_THAT(ids_of(analysis.findings), Contains("low_utilization"));
}

TEST(Findings, EightBitDataConvertedOnTheHost) {
  TraceText text;
  text.step(1, 0, 100);
  text.event("cpu_op", "aten::copy_", 0, 10,
             {{"Input type", {"float", "unsigned char", "Scalar"}}});
  EXPECT_THAT(ids_of(analysis_of(text).findings), Contains("float_from_uint8"));
  TraceText other;
  other.step(1, 0, 100);
  other.event("cpu_op", "aten::copy_", 0, 10,
              {{"Input type", {"unsigned char", "float", "Scalar"}}});
  EXPECT_THAT(ids_of(analysis_of(other).findings), Not(Contains("float_from_uint8")));
}

TEST(Findings, ConvertingOnTheDeviceIsWhatIsAdvised) {
  // The id is that of the operator, that of nothing, or the correlation, as in some versions.
  for (const int id : {5, 900, 1}) {
    TraceText text;
    text.step(1, 0, 100);
    text.event("cpu_op", "aten::copy_", 0, 10,
               {{"Input type", {"float", "unsigned char", "Scalar"}}, {"External id", 5}});
    text.kernel("convert", 2, 12, 30, {{"External id", id}});
    EXPECT_DOUBLE_EQ(analysis_of(text).signals.at("loading.float_from_uint8_ratio"), 0) << id;
  }
}

TEST(Findings, WhatIsOutsideTheStepsIsNotCharged) {
  TraceText text;
  text.step(1, 1000, 100).event("cpu_op", "aten::mm", 1000, 90);
  text.event("cpu_op", "aten::copy_", 0, 50,
             {{"Input type", {"float", "unsigned char", "Scalar"}}});
  text.event("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", 100, 20);
  text.event("cpu_op", "aten::zero_", 102, 5);
  text.event("overhead", "Activity Buffer Request", 200, 60);
  const TraceAnalysis analysis = analysis_of(text);
  for (const char* signal :
       {"loading.float_from_uint8_ratio", "gradients.fill_ratio", "profiler.overhead_ratio"})
    EXPECT_DOUBLE_EQ(analysis.signals.at(signal), 0) << signal;
}

TEST(Findings, TheProfilersOwnWaitAtTheEndIsNotTheJobs) {
  TraceText text;
  text.step(1, 0, 100).kernel("a", 90, 95, 200);
  text.event("cuda_runtime", "cudaDeviceSynchronize", 110, 180);
  EXPECT_DOUBLE_EQ(analysis_of(text).signals.at("waiting.synchronize_ratio"), 0);
}

TEST(Findings, TheFullestRankDecidesAboutMemory) {
  std::vector<TraceAnalysis> ranks;
  for (const int bytes : {960, 200}) {
    TraceText text;
    text.step(1, 0, 100).kernel("a", 5, 10, 60).allocated(bytes);
    ranks.push_back(analysis_of(text));
  }
  const Overall all = overall_of(ranks);
  EXPECT_THAT(ids_of(all.findings), Contains("memory_full"));
  EXPECT_THAT(ids_of(all.findings), Not(Contains("memory_unused")));
  EXPECT_DOUBLE_EQ(all.signals.at("memory.peak_bytes"), 960);
}

TEST(Findings, ARankWhoseKernelsHaveNoFiguresIsNoRankWithIdleDevices) {
  const Json known = {{"blocks per SM", 2}, {"est. achieved occupancy %", 50}};
  std::vector<TraceAnalysis> ranks;
  for (const Json& figures : {known, Json::object(), known}) {
    TraceText text;
    text.step(1, 0, 100).kernel("gemm", 5, 10, 60, figures);
    ranks.push_back(analysis_of(text));
  }
  const Overall all = overall_of(ranks);
  ASSERT_EQ(all.kernels.size(), 1U);
  EXPECT_EQ(all.kernels[0].calls, 3);
  EXPECT_EQ(all.kernels[0].total_ns, 180'000);
  EXPECT_DOUBLE_EQ(all.kernels[0].blocks_per_sm.value(), 2);
  EXPECT_DOUBLE_EQ(all.kernels[0].occupancy_percent.value(), 50);
}

TEST(Findings, ARankThatTheOthersWaitFor) {
  std::vector<TraceAnalysis> ranks;
  for (const int work : {40, 40, 90}) {
    TraceText text;
    text.step(1, 0, 100).event("cpu_op", "aten::mm", 0, work);
    text.event("user_annotation", "gloo:all_reduce", work, 100 - work);
    ranks.push_back(analysis_of(text));
  }
  const Overall all = overall_of(ranks);
  EXPECT_THAT(ids_of(all.findings), Contains("straggler"));
  EXPECT_NEAR(all.signals.at("ranks.imbalance_ratio"), (90.0 - 170.0 / 3) / 100, 1e-9);
  EXPECT_DOUBLE_EQ(all.step_ns, 100'000);
  EXPECT_EQ(all.operators.front().calls, 3);
}

TEST(Findings, CopiesAndFillsThatMakeTheHostWait) {
  for (const char* call : {"cudaMemcpy", "hipMemcpy", "cuMemcpyHtoD_v2", "cudaMemcpy2D",
                           "hipMemcpyWithStream", "cuMemcpyDtoH_v2", "hipMemcpyDtoH"}) {
    TraceText text;
    text.step(1, 0, 100).kernel("a", 1, 10, 30).event("cuda_runtime", call, 50, 20);
    text.event("cuda_driver", "cuMemcpyHtoD_v2", 52, 17);  // of the same call
    const TraceAnalysis analysis = analysis_of(text);
    EXPECT_DOUBLE_EQ(analysis.signals.at("waiting.synchronous_copy_ratio"), 0.2) << call;
    EXPECT_THAT(ids_of(analysis.findings), Contains("synchronous_copies")) << call;
  }
  for (const char* call : {"cudaMemset", "cuMemsetD32_v2", "hipMemset"}) {
    TraceText text;
    text.step(1, 0, 100).kernel("a", 1, 10, 30).event("cuda_runtime", call, 50, 20);
    EXPECT_THAT(ids_of(analysis_of(text).findings), Contains("synchronous_fills")) << call;
  }
}

TEST(Findings, CopiesAndFillsThatDoNotWait) {
  for (const char* call : {"cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cudaMemcpyPeer",
                           "hipMemcpyDtoD", "cudaMemcpyBatchAsync", "cudaMemsetAsync"}) {
    TraceText text;
    text.step(1, 0, 100).kernel("a", 1, 10, 30).event("cuda_runtime", call, 50, 20);
    const TraceAnalysis analysis = analysis_of(text);
    EXPECT_DOUBLE_EQ(analysis.signals.at("waiting.synchronous_copy_ratio"), 0) << call;
    EXPECT_DOUBLE_EQ(analysis.signals.at("waiting.synchronous_fill_ratio"), 0) << call;
  }
}

TraceText distributed_step(const std::string& collective, const std::string& launch) {
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "DistributedDataParallel.forward", 0, 50);
  text.event("user_annotation", collective, 60, 10);
  text.event("cuda_runtime", launch, 5, 1, {{"correlation", 900}});
  text.event("kernel", "gemm", 10, 30, {{"correlation", 900}, {"device", 0}});
  return text;
}

TEST(Findings, GradientsOfGpusThroughTheHost) {
  EXPECT_THAT(ids_of(analysis_of(distributed_step("gloo:all_reduce", "cudaLaunchKernel")).findings),
              Contains("without_nccl"));
  EXPECT_THAT(ids_of(analysis_of(distributed_step("mpi:all_reduce", "hipLaunchKernel")).findings),
              Contains("without_nccl"));
  TraceText named = distributed_step("mine", "cudaLaunchKernel");
  named.json()["distributedInfo"] = {{"backend", "gloo"}, {"rank", 0}, {"world_size", 2}};
  EXPECT_THAT(ids_of(analysis_of(named).findings), Contains("without_nccl"));
}

// NCCL, and what other makers have in its place.
TEST(Findings, OtherLibrariesThanNcclAreFine) {
  for (const auto& [collective, launch] : {std::pair{"nccl:all_reduce", "cudaLaunchKernel"},
                                           {"xccl:all_reduce", "urEnqueueKernelLaunch"},
                                           {"HcclAllreduce", "aclnnMm"},
                                           {"mine", "cudaLaunchKernel"},
                                           {"gloo:all_reduce", "urEnqueueKernelLaunch"}}) {
    const TraceText text = distributed_step(collective, launch);
    EXPECT_THAT(ids_of(analysis_of(text).findings), Not(Contains("without_nccl"))) << collective;
  }
  TraceText both = distributed_step("gloo:barrier", "cudaLaunchKernel");
  both.kernel("ncclDevKernel_AllReduce", 70, 75, 10);
  EXPECT_THAT(ids_of(analysis_of(both).findings), Not(Contains("without_nccl")));
}

// One of eight copies from memory that is not pinned: the mean is far below the threshold.
TEST(Findings, OneBadRankIsNotAveragedAway) {
  std::vector<TraceAnalysis> ranks;
  for (int i = 0; i < 8; ++i) {
    TraceText text;
    text.json()["distributedInfo"] = {{"rank", i}, {"world_size", 8}};
    text.step(1, 0, 100).kernel("a", 1, 10, 80);
    text.event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 92, i == 5 ? 4 : 0,
               {{"device", 0}, {"bytes", 4096}});
    ranks.push_back(analysis_of(text));
  }
  const Overall all = overall_of(ranks);
  EXPECT_LT(all.signals.at("copies.pageable_ratio"), 0.01);
  const auto found = std::ranges::find(all.findings, std::string("pageable_copies"),
                                       [](const Finding& finding) { return finding.rule->id; });
  ASSERT_NE(found, all.findings.end());
  EXPECT_THAT(found->evidence, testing::StartsWith("on rank 5 only: 4.0 % of the step"));
}

// What the tables and findings of one rank have, those of several have too.
TEST(Findings, SeveralRanksKeepModulesAndArithmetic) {
  std::vector<TraceAnalysis> ranks;
  for (int i = 0; i < 2; ++i) {
    TraceText text;
    text.json()["distributedInfo"] = {{"rank", i}, {"world_size", 2}};
    text.step(1, 0, 100);
    text.event("cpu_op", "aten::gather", 0, 20 + 20 * i, {{"Module Hierarchy", "blocks.3.drop"}});
    text.event("cpu_op", "aten::mm", 60, 10,
               {{"Input Dims", Json::array({{2, 3}, {3, 4}})}, {"Input type", {"float", "float"}}});
    ranks.push_back(analysis_of(text));
  }
  const Overall all = overall_of(ranks);
  const auto mm = std::ranges::find(all.operators, "aten::mm", &OperatorRow::name);
  ASSERT_NE(mm, all.operators.end());
  EXPECT_DOUBLE_EQ(mm->flop, 2 * 2 * 2 * 3 * 4);
  const auto gather = std::ranges::find(all.findings, std::string("gather_backward"),
                                        [](const Finding& finding) { return finding.rule->id; });
  ASSERT_NE(gather, all.findings.end());
  EXPECT_THAT(gather->evidence, HasSubstr("; on rank 1 100 % of that in blocks.3.drop"));
}

}  // namespace
}  // namespace autotuned::analysis
