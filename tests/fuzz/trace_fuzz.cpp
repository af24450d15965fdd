// SPDX-License-Identifier: Apache-2.0
// Traces of other programs, plain and gzipped: read, then analysed.
#include <cmath>

#include "profiler/analysis/profile.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace autotuned;
  const auto trace =
      traces::read_trace(fuzz::file_with(fuzz::text_of(data, size)), {.with_stacks = true});
  if (!trace) {
    FUZZ_CHECK(!trace.error().what.empty());
    return 0;
  }
  const auto profile = analysis::profile_of(*trace, analysis::Depth::plots);
  const auto& analysis = profile.summary;
  double parts = 0;
  for (std::size_t part = 0; part < analysis::kParts; ++part)
    parts += analysis.breakdown.mean_part_ns(static_cast<analysis::Part>(part));
  FUZZ_CHECK(std::abs(parts - analysis.breakdown.mean_step_ns()) <= 1e-6 * (1 + parts));
  for (const analysis::Flame* flame : {&profile.flame, &profile.python_flame}) {
    for (std::size_t i = 0; i < flame->frames.size(); ++i) {
      const std::uint32_t parent = flame->frames[i].parent;
      FUZZ_CHECK(parent == analysis::kNoNode || parent < i);
    }
  }
  for (const analysis::Bar& bar : profile.bars.bars)
    FUZZ_CHECK(bar.cause == analysis::kNoBar || bar.cause < profile.bars.bars.size());
  for (const auto& change : profile.memory.changes)
    FUZZ_CHECK(change.call == analysis::kNoNode || change.call < profile.memory.calls.size());
  (void)analysis::memory_table(profile.memory, profile.recorded);
  return 0;
}
