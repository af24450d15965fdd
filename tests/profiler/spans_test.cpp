// SPDX-License-Identifier: Apache-2.0
#include "profiler/spans.hpp"

#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "profiler/scopes.hpp"

namespace autotuned::profiler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Span, IsRecordedOnlyWhileSomebodyProfiles) {
  { const Span before("before"); }
  SpanRecorder recorder;
  { const Span during("during"); }
  recorder.stop();
  { const Span after("after"); }
  ASSERT_THAT(recorder.records(), SizeIs(1));
  EXPECT_STREQ(recorder.records()[0].name, "during");
  EXPECT_LE(recorder.records()[0].start_ns, recorder.records()[0].end_ns);
}

TEST(Span, KnowsItsParent) {
  SpanRecorder recorder;
  EXPECT_STREQ(recorder.open_span(), "");
  {
    const Span outer("outer");
    { const Span inner("inner"); }
    EXPECT_STREQ(recorder.open_span(), "outer");
    const Span second("second");
    EXPECT_STREQ(recorder.open_span(), "second");
  }
  const Span next("next");
  ASSERT_THAT(recorder.records(), SizeIs(4));
  EXPECT_EQ(recorder.records()[0].parent, -1);
  EXPECT_EQ(recorder.records()[1].parent, 0);
  EXPECT_EQ(recorder.records()[2].parent, 0);
  EXPECT_EQ(recorder.records()[3].parent, -1);
}

TEST(Span, BelongsToItsThread) {
  const SpanRecorder recorder;
  std::thread([] {
    EXPECT_EQ(SpanRecorder::current(), nullptr);
    const Span other("other");
  }).join();
  EXPECT_THAT(recorder.records(), IsEmpty());
}

class HeardSpans final : public ScopeListener {
 public:
  void enter_operator(ScopeId /*operation*/) noexcept override {}
  void leave_operator() noexcept override {}
  void enter_span(ScopeId span) noexcept override { heard.push_back(static_cast<int>(span)); }
  void leave_span() noexcept override { heard.push_back(-1); }

  std::vector<int> heard;
};

TEST(Span, IsToldToAListener) {
  HeardSpans listener;
  SpanRecorder recorder(8, &listener);
  {
    const Span outer("outer");
    { const Span inner("inner"); }
  }
  { const Span next("next"); }
  EXPECT_THAT(listener.heard, ElementsAre(1, 2, -1, -1, 3, -1));
  EXPECT_EQ(scope_of_span(0), 1U);
}

TEST(Span, ARecorderCanFollowAnother) {
  { const SpanRecorder first; }
  SpanRecorder second;
  { const Span span("span"); }
  EXPECT_THAT(second.records(), SizeIs(1));
}

TEST(SpanTotals, SubtractsWhatIsInside) {
  const std::vector<SpanRecord> records = {{"step", 0, 100, -1},   {"forward", 10, 40, 0},
                                           {"loss", 30, 40, 1},    {"backward", 40, 90, 0},
                                           {"step", 100, 150, -1}, {"forward", 110, 120, 4}};
  EXPECT_THAT(totals_of(records),
              ElementsAre(SpanTotal{"step", 2, 150, 60}, SpanTotal{"forward", 2, 40, 30},
                          SpanTotal{"loss", 1, 10, 10}, SpanTotal{"backward", 1, 50, 50}));
}

TEST(SpanTotals, FindsByName) {
  const std::vector<SpanTotal> totals = totals_of({{"step", 0, 5, -1}});
  ASSERT_NE(find_total(totals, "step"), nullptr);
  EXPECT_EQ(find_total(totals, "step")->total_ns, 5);
  EXPECT_EQ(find_total(totals, "optimizer"), nullptr);
}

}  // namespace
}  // namespace autotuned::profiler
