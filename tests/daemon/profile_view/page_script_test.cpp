// SPDX-License-Identifier: Apache-2.0
// The script of a profile's page: what each plot draws is what the trace says.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/json.hpp"
#include "daemon/common/exit_codes.hpp"
#include "tests/daemon/cli/printed.hpp"
#include "tests/daemon/page_script.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::daemon {
namespace {

class PageScript : public PageScriptTest {
 protected:
  // The page of a trace must be as the scene of page/check.js says.
  void expect_scene(const std::string& scene, const std::string& trace,
                    const std::string& more = "") const {
    const std::filesystem::path page = folder_ / "page.html";
    const Printed printed =
        run({"analyze", "--html", page.string(), folder_.write("trace.json", trace).string()});
    ASSERT_EQ(printed.code, kDone) << printed.err;
    expect_scene_of("profile_view/page/check.js", scene, page, more);
  }
};

// Two steps of 100 and 200 us.
std::string two_steps() {
  TraceText text;
  text.step(1, 0, 100).step(2, 100, 200);
  text.event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0,
             20);
  text.event("cpu_op", "aten::linear", 20, 50).event("cpu_op", "aten::addmm", 30, 30);
  text.kernel("gemm", 40, 50, 40);
  text.event("cpu_op", "aten::relu", 120, 40).kernel("relu_kernel", 130, 200, 30);
  text.memory(35, 1000, 1000, 0, -1, 1, 11).memory(130, 3000, 4000, 0, -1, 1, 12);
  text.memory(150, -1000, 3000, 0, -1, 1, 11).memory(250, 500, 3500, 0, -1, 1, 13);
  return text.text();
}

TEST_F(PageScript, DrawsThePartsOfSteps) {
  expect_scene("steps", two_steps());
}

TEST_F(PageScript, DrawsTheTimeline) {
  expect_scene("timeline", two_steps());
}

TEST_F(PageScript, DrawsTheFlameGraph) {
  expect_scene("flame", two_steps());
}

// The page computes the tables of a stretch itself: they are those of the command.
TEST_F(PageScript, DrawsMemoryAndWhatAStretchTook) {
  const Printed printed = run({"analyze", "--json", "--view", "memory", "--range", "0.1:0.2",
                               folder_.write("ranged.json", two_steps()).string()});
  ASSERT_EQ(printed.code, kDone) << printed.err;
  const auto json = parse_json(printed.out, "analyze");
  ASSERT_TRUE(json) << json.error().message();
  Json rows;
  for (const Json& table : json->at("views").at("memory")) {
    if (table.at("table") == "memory") rows = table.at("rows");
  }
  ASSERT_FALSE(rows.empty()) << printed.out;
  expect_scene("memory", two_steps(), folder_.write("rows.json", rows.dump()).string());
}

// A name in every place where a trace has one.
TEST_F(PageScript, NamesNeverBecomeMarkup) {
  const std::string hostile =
      "<img src=x onerror=alert(1)>\"'`${alert(2)}</script>javascript:alert(3)";
  TraceText text;
  for (int step = 0; step < 3; ++step) {
    const int at = 100 * step;
    text.event("user_annotation", "ProfilerStep#" + hostile, at, 100);
    text.event("cpu_op", hostile, at + 10, 40, {{"Input Dims", {hostile}}});
    text.python(hostile, at + 5, 60).python("nn.Module: " + hostile, at + 8, 50);
    text.kernel(hostile, at + 12, at + 30, 30);
    text.memory(at + 15, 512, 512, 0, -1, 1, 1 + step);
  }
  text.json()["traceEvents"].push_back({{"ph", "M"},
                                        {"name", "thread_name"},
                                        {"pid", 100},
                                        {"tid", 1},
                                        {"args", {{"name", hostile}}}});
  text.json()["deviceProperties"] = {{{"id", 0}, {"name", hostile}}};
  text.json()["recordingNotes"] = {hostile};
  expect_scene("hostile", text.text(), hostile);
}

}  // namespace
}  // namespace autotuned::daemon
