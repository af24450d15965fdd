// SPDX-License-Identifier: Apache-2.0
// Damaged traces, the same ones in every run. The sanitizer builds are what gives these teeth.
#include <gtest/gtest.h>

#include <random>

#include "base/file.hpp"
#include "profiler/analysis/profile.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "tests/places.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::traces {
namespace {

constexpr int kFiles = 3000;

// A little of everything that a trace may hold.
std::string seed_text() {
  TraceText text;
  text.step(1, 0, 100).step(2, 110, 90);
  text.event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1,
             9);
  text.event("cpu_op", "aten::mm", 10, 20, {{"External id", 3}, {"Input type", {"float", "long"}}});
  text.python("train.py(3): step", 10, 20, 1).python("<built-in method mm>", 10, 19, 2, 1);
  text.python("nn.Module: Net_0", 10, 22, 3, 1);
  text.event("cpu_op", "aten::t", 41, 2, {{"Call stack", "a.py(1): f;b.py(2): g;"}});
  text.event("cpu_op", "aten::empty", 12, 9, {{"Input Dims", {2, 3}}, {"Sequence number", 4}});
  text.event("cpu_op", "MmBackward0", 40, 5, {{"Sequence number", 4}, {"Fwd thread id", 1}});
  text.memory(14, 64, 64).memory(44, -64, 0);
  text.kernel("ampere_sgemm", 12, 20, 30,
              {{"External id", 3}, {"blocks per SM", 0.5}, {"stream", 7}});
  text.event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 60, 2, {{"bytes", 4096}});
  text.event("user_annotation", "nccl:all_reduce", 70, 3, {{"External id", 9}});
  text.json()["traceEvents"].push_back({{"ph", "i"},
                                        {"name", "[memory]"},
                                        {"ts", 5.5},
                                        {"args", {{"Bytes", 512}, {"Device Type", 1}}}});
  text.json()["deviceProperties"] = {{{"id", 0}, {"name", "C:\\gpu"}, {"totalGlobalMem", 1000}}};
  text.json()["distributedInfo"] = {{"rank", 0}, {"world_size", 2}};
  return text.text();
}

std::string damaged(std::string text, std::mt19937_64& random) {
  constexpr std::string_view kAlphabet = "{}[]\",:\\u019.-+eEtfn \n\x80\xff\x01";
  for (auto left = 1 + random() % 4; left > 0; --left) {
    const std::size_t at = random() % text.size();
    const char byte = kAlphabet[random() % kAlphabet.size()];
    switch (random() % 6) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text[at] = static_cast<char>(random());
        break;
      case 2:
        text.erase(at, 1 + random() % 8);
        break;
      case 3:
        text.insert(at, 1 + random() % 3, byte);
        break;
      case 4:
        text.insert(at, text.substr(random() % text.size(), random() % 64));
        break;
      default:
        if (random() % 4 == 0) text.resize(at + 1);
        break;
    }
    if (text.empty()) text = "{";
  }
  return text;
}

TEST(Mutation, DamagedTracesAreReadOrRefused) {
  std::mt19937_64 random(6);
  const std::string seed = seed_text();
  const TemporaryFolder folder;
  int good = 0;
  for (int i = 0; i < kFiles; ++i) {
    const auto trace =
        read_trace(folder.write("trace.json", damaged(seed, random)), {.with_stacks = i % 2 == 0});
    if (!trace) {
      EXPECT_FALSE(trace.error().what.empty());
      continue;
    }
    ++good;
    const auto profile = analysis::profile_of(*trace, analysis::Depth::plots);
    const auto& analysis = profile.summary;
    (void)analysis::memory_table(profile.memory, profile.recorded);
    for (const analysis::Bar& bar : profile.bars.bars)
      EXPECT_TRUE(bar.cause == analysis::kNoBar || bar.cause < profile.bars.bars.size());
    double parts = 0;
    for (std::size_t part = 0; part < analysis::kParts; ++part)
      parts += analysis.breakdown.mean_part_ns(static_cast<analysis::Part>(part));
    EXPECT_NEAR(parts, analysis.breakdown.mean_step_ns(), 1e-6 * (1 + parts));
  }
  EXPECT_GT(good, kFiles / 2);
}

TEST(Mutation, DamagedCompressedTracesAreReadOrRefused) {
  const auto packed =
      read_file(tests::source_folder() / "tests/profiler/data/rank0.pt.trace.json.gz", 1 << 20);
  ASSERT_TRUE(packed);
  std::mt19937_64 random(7);
  const TemporaryFolder folder;
  for (int i = 0; i < 100; ++i) {
    const auto trace = read_trace(folder.write("trace.json.gz", damaged(*packed, random)));
    if (trace) (void)analysis::profile_of(*trace, analysis::Depth::plots);
  }
}

}  // namespace
}  // namespace autotuned::traces
