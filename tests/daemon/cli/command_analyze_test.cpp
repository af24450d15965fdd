// SPDX-License-Identifier: Apache-2.0
// `autotuned analyze` and `findings`, from the command line to what they print.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "base/file.hpp"
#include "base/json.hpp"
#include "daemon/common/exit_codes.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/cli/printed.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::daemon {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Json analysis_of(const std::vector<std::string>& files) {
  std::vector<std::string> arguments = {"analyze", "--json"};
  arguments.insert(arguments.end(), files.begin(), files.end());
  const Printed printed = run(arguments);
  EXPECT_EQ(printed.code, kDone) << printed.err;
  const auto json = parse_json(printed.out, "analyze --json");
  EXPECT_TRUE(json) << printed.out;
  return json.value_or(Json());
}

bool has_finding(const Json& analysis, const std::string& id) {
  return std::ranges::any_of(analysis.at("findings"),
                             [&](const Json& finding) { return finding.at("id") == id; });
}

double sum_of_parts(const Json& analysis) {
  double sum = 0;
  for (const auto& part : analysis.at("parts_us").items())
    sum += part.value().get<double>();
  return sum;
}

TEST(Analyze, JsonOfACpuTrace) {
  const Json json = analysis_of({data_file("classifier")});
  EXPECT_EQ(json.at("steps"), 4);
  EXPECT_EQ(json.at("parts_us").size(), 8U);
  EXPECT_NEAR(sum_of_parts(json), json.at("step_us"), 0.01);
  for (const char* figure :
       {"utilization", "sm_efficiency", "achieved_occupancy_percent", "tensor_core_ratio"})
    EXPECT_TRUE(json.at("gpu").at(figure).is_null()) << figure;
  EXPECT_TRUE(has_finding(json, "data_loading"));
  EXPECT_TRUE(has_finding(json, "loading_in_training_process"));
  EXPECT_GT(json.at("operators").size(), 50U);
  EXPECT_TRUE(json.at("kernels").empty());
  EXPECT_FALSE(json.contains("ranks"));
}

TEST(Analyze, CodeOfSeveralFindingsIsPrintedOnce) {
  const std::string text = run({"analyze", data_file("classifier")}).out;
  const std::string code = "num_workers=len(os.sched_getaffinity(0))";
  const std::size_t first = text.find(code);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find(code, first + 1), std::string::npos) << text;
  EXPECT_NE(text.find("      the code of ", first), std::string::npos);
}

// What it costs at most, and how to mend it.
TEST(Analyze, FindingsHaveARemedy) {
  const Json json = analysis_of({data_file("workers")});
  for (const Json& finding : json.at("findings")) {
    EXPECT_TRUE(finding.at("severity").is_string()) << finding;
    EXPECT_TRUE(finding.contains("code")) << finding;
    if (finding.at("id") != "data_loading") continue;
    const double share =
        json.at("parts_us").at("DataLoader").get<double>() / json.at("step_us").get<double>();
    EXPECT_NEAR(finding.at("most_saved_ratio"), share, 1e-6);
    EXPECT_EQ(finding.at("severity"), "high");
  }
  EXPECT_TRUE(has_finding(json, "data_loading"));
  const std::string text = run({"analyze", data_file("workers")}).out;
  EXPECT_THAT(text,
              AllOf(HasSubstr("\n    high: at most 27.5 % of the step (1.38 x the rate), if no"),
                    HasSubstr("\n      loader = DataLoader(dataset, "),
                    HasSubstr("\n      optimizer.zero_grad(set_to_none=True)\n")));
  // The largest possible gain comes first.
  EXPECT_LT(text.find("\n    high: "), text.find("\n    low: "));
}

// What stands in the first block of code behind `words` in a document.
std::string block_behind(const std::string& document, const std::string& words) {
  const auto text = read_file(tests::source_folder() / document, std::size_t{1} << 20U);
  EXPECT_TRUE(text) << document;
  const std::string fence = "```\n";
  const std::size_t at = text ? text->find(words) : std::string::npos;
  const std::size_t begin = at == std::string::npos ? at : text->find(fence, at);
  const std::size_t end = begin == std::string::npos ? begin : text->find(fence, begin + 1);
  if (end == std::string::npos) {
    ADD_FAILURE() << document << " has no block behind: " << words;
    return {};
  }
  return text->substr(begin + fence.size(), end - begin - fence.size());
}

std::string without_trailing_blanks(const std::string& text) {
  std::istringstream lines(text);
  std::string cut;
  for (std::string line; std::getline(lines, line);)
    cut += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return cut;
}

// "  …" stands for lines that a document leaves out.
TEST(Analyze, PrintsWhatTheDocumentsShow) {
  const std::string name = "tests/profiler/data/workers.pt.trace.json.gz";
  const std::string command = "autotuned analyze " + name;
  const std::string file = data_file("workers");
  std::string printed = without_trailing_blanks(run({"analyze", file}).out);
  ASSERT_TRUE(printed.starts_with(file)) << printed;
  printed.replace(0, file.size(), name);

  EXPECT_THAT(printed, HasSubstr(block_behind("README.md", "`" + command + "`")));
  std::string shown = block_behind("docs/profiling-views.md", "The overview of a small network");
  ASSERT_TRUE(shown.starts_with("$ " + command + "\n")) << shown;
  shown.erase(0, shown.find('\n') + 1);
  const std::string omission = "  …\n";
  std::size_t at = 0;
  while (!shown.empty()) {
    const std::string part = shown.substr(0, shown.find(omission));
    shown.erase(0, std::min(shown.size(), part.size() + omission.size()));
    const std::size_t found = printed.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "is not in:\n" << printed;
    EXPECT_TRUE(at > 0 || found == 0) << part;
    at = found + part.size();
  }
  EXPECT_EQ(at, printed.size()) << "it ends with:\n" << printed.substr(at);
}

TEST(Analyze, SplitsTheTimeOfOperators) {
  const std::string file = data_file("workers");
  const Json json = analysis_of({file});
  double sum = 0;
  for (const char* phase : {"forward", "backward", "optimizer", "elsewhere"})
    sum += json.at("cpu_us").at(phase).get<double>();
  EXPECT_NEAR(sum, json.at("parts_us").at("CPU Exec"), 0.01);
  for (const char* phase : {"forward", "backward", "optimizer"})
    EXPECT_GT(json.at("cpu_us").at(phase), 0.0) << phase;
  EXPECT_THAT(run({"analyze", file}).out,
              ContainsRegex("CPU Exec .*\n  forward .*\n  backward .*\n  optimizer "));
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 0, 50);
  const TemporaryFolder folder;
  const Json without = analysis_of({folder.write("trace.json", text.text()).string()});
  EXPECT_TRUE(without.at("cpu_us").is_null());
}

TEST(Analyze, JsonOfSeveralRanks) {
  const Json one = analysis_of({data_file("rank1")});
  const Json json = analysis_of({data_file("rank1"), data_file("rank0")});
  ASSERT_EQ(json.at("ranks").size(), 2U);
  EXPECT_EQ(json.at("ranks")[0].at("rank"), 0);
  EXPECT_EQ(json.at("ranks")[1], one);
  EXPECT_NEAR(sum_of_parts(json), json.at("step_us"), 0.01);
  const double mean =
      (json.at("ranks")[0].at("step_us").get<double>() + one.at("step_us").get<double>()) / 2;
  EXPECT_NEAR(json.at("step_us"), mean, 1e-6);
  for (const char* id : {"pageable_copies", "gradient_fills", "layout_conversions"})
    EXPECT_TRUE(has_finding(json, id) || has_finding(one, id)) << id;
  EXPECT_GT(json.at("gpu").at("tensor_core_ratio"), 0.1);
  EXPECT_EQ(json.at("kernels").size(), 6U);
}

TEST(Analyze, ViewsForPeople) {
  const std::string file = data_file("rank0");
  EXPECT_THAT(run({"analyze", file}).out,
              AllOf(HasSubstr("4 steps"), HasSubstr("Communication"), HasSubstr("NVIDIA A10G"),
                    HasSubstr("findings"), HasSubstr("plugin pinned_memory")));
  const Printed operators = run({"analyze", "--view", "operators", "--top", "3", file});
  EXPECT_THAT(operators.out, AllOf(HasSubstr("host self"), HasSubstr("aten::mm")));
  EXPECT_EQ(std::ranges::count(operators.out, '\n'),
            7);  // the file, a blank, the title, the heading, three rows
  EXPECT_THAT(run({"analyze", "--view", "kernels", file}).out,
              AllOf(HasSubstr("ampere_sgemm"), HasSubstr("tensor cores")));
  EXPECT_THAT(run({"analyze", "--view", "kernels", data_file("workers")}).out,
              HasSubstr("no kernels"));
}

TEST(Analyze, ShowsSeveralViews) {
  const Printed both =
      run({"analyze", "--view", "memory,input", "--view", "trace", data_file("classifier")});
  EXPECT_EQ(both.code, kDone) << both.err;
  EXPECT_THAT(both.out,
              AllOf(HasSubstr("(aten::empty"), HasSubstr("self increase"),
                    HasSubstr("largest allocations"), HasSubstr("_SingleProcessDataLoaderIter"),
                    HasSubstr("threads and streams"), HasSubstr("longest gaps")));
  EXPECT_THAT(both.out, Not(HasSubstr("findings")));
  EXPECT_THAT(run({"analyze", "--view", "distributed", data_file("rank0"), data_file("rank1")}).out,
              AllOf(HasSubstr("overlapped"), HasSubstr("nccl"), HasSubstr("waiting for others")));
  EXPECT_THAT(run({"analyze", "--view", "modules", data_file("workers")}).out,
              HasSubstr("no modules were recorded"));
  EXPECT_THAT(run({"analyze", "--view", "operators", "--shapes", data_file("classifier")}).out,
              HasSubstr("[4, 10]"));
}

TEST(Analyze, GroupsOperatorsByTheirStacks) {
  TraceText text;
  text.python("train.py(30): main", 0, 200).python("model.py(12): forward", 10, 40);
  text.event("cpu_op", "aten::mm", 15, 10).event("cpu_op", "aten::mm", 70, 5);
  const TemporaryFolder folder;
  const std::string file = folder.write("trace.json", text.text()).string();
  const Printed printed = run({"analyze", "--view", "operators", "--stacks", file});
  EXPECT_EQ(printed.code, kDone) << printed.err;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("operators by call stack"),
                                 HasSubstr("model.py(12): forward ← train.py(30): main")));
  const auto json =
      parse_json(run({"analyze", "--json", "--view", "operators", "--stacks", file}).out, "json");
  ASSERT_TRUE(json);
  const Json& rows = json->at("views").at("operators")[0].at("rows");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].at("stack"), "train.py(30): main");
  EXPECT_EQ(json->at("operators").size(), 1U) << "the table by name stays as it is";
  EXPECT_THAT(run({"analyze", "--view", "operators", "--stacks", data_file("workers")}).out,
              HasSubstr("with_stack=True"));
}

TEST(Analyze, SortsByAColumn) {
  const Printed sorted = run({"analyze", "--view", "memory", "--sort", "self allocated", "--top",
                              "1", data_file("classifier")});
  EXPECT_EQ(sorted.code, kDone) << sorted.err;
  const Printed unknown =
      run({"analyze", "--view", "kernels", "--sort", "colour", data_file("rank0")});
  EXPECT_EQ(unknown.code, kUsageError);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("colour"), HasSubstr("tensor_cores")));
}

TEST(Analyze, SaysWhichOptionNoViewObeys) {
  const auto warning = [](const std::vector<std::string>& options) {
    std::vector<std::string> command = {"analyze", data_file("classifier")};
    command.insert(command.end(), options.begin(), options.end());
    return run(command).err;
  };
  EXPECT_THAT(warning({"--range", "0:5"}), HasSubstr("--range changes nothing here"));
  EXPECT_THAT(warning({"--shapes"}), HasSubstr("--shapes changes nothing here"));
  EXPECT_EQ(warning({"--shapes", "--view", "operators"}), "");
}

TEST(Analyze, RangeOfTheMemoryView) {
  const auto table = [](const std::string& range) {
    return run({"analyze", "--view", "memory", "--range", range, data_file("classifier")});
  };
  EXPECT_THAT(table("0:5").out, HasSubstr("from 0 ns to 5.00 ms"));
  EXPECT_THAT(table("900000:").out, HasSubstr("no memory was taken"));
  for (const char* bad : {"5", "a:b", "9:3", "-1:2", "nan:3", "1:2:3"}) {
    EXPECT_EQ(table(bad).code, kUsageError) << bad;
    EXPECT_THAT(table(bad).err, HasSubstr("FROM:TO")) << bad;
  }
}

TEST(Analyze, JsonOfViews) {
  const auto json = parse_json(
      run({"analyze", "--json", "--view", "memory,modules", "--top", "2", data_file("classifier")})
          .out,
      "analyze");
  ASSERT_TRUE(json);
  const Json& memory = json->at("views").at("memory");
  ASSERT_EQ(memory.size(), 3U);
  EXPECT_EQ(memory[1].at("table"), "memory");
  EXPECT_EQ(memory[2].at("table"), "memory_blocks");
  ASSERT_EQ(memory[2].at("rows").size(), 2U);
  const Json& largest = memory[2].at("rows")[0];
  EXPECT_GE(largest.at("size_bytes"), memory[2].at("rows")[1].at("size_bytes"));
  EXPECT_GT(largest.at("held_us"), 0.0);
  EXPECT_NEAR(largest.at("released_at_us"),
              largest.at("taken_at_us").get<double>() + largest.at("held_us").get<double>(), 0.01);
  ASSERT_EQ(memory[1].at("rows").size(), 2U);
  EXPECT_TRUE(memory[1].at("rows")[0].at("self_increase_bytes").is_number_integer());
  EXPECT_TRUE(json->at("views").at("modules")[0].at("rows").empty());
  EXPECT_FALSE(analysis_of({data_file("classifier")}).contains("views"));
}

TEST(Analyze, DifferenceOfTwoProfiles) {
  const Printed printed =
      run({"analyze", "--against", data_file("rank0"), data_file("rank1"), "--view", "kernels"});
  EXPECT_EQ(printed.code, kDone) << printed.err;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("a step took"), HasSubstr("kernels, time in a step"),
                                 HasSubstr("of before")));
  const auto json = parse_json(
      run({"analyze", "--json", "--against", data_file("rank0"), data_file("rank1")}).out, "json");
  ASSERT_TRUE(json);
  EXPECT_FALSE(json->at("views").at("difference")[0].at("rows").empty());
  EXPECT_EQ(run({"analyze", "--against", "none.json", data_file("rank1")}).code, kUsageError);
}

TEST(Analyze, DifferenceTellsLargeGrowthAsFactorAndWhatIsNew) {
  TraceText before;
  before.step(1, 0, 100).event("cpu_op", "aten::mm", 0, 10);
  TraceText after;
  after.step(1, 0, 8000).event("cpu_op", "aten::mm", 0, 4460);
  after.event("cpu_op", "aten::relu", 5000, 10);
  const TemporaryFolder folder;
  const std::string file = folder.write("after.json", after.text()).string();
  const std::string earlier = folder.write("before.json", before.text()).string();
  const std::string text = run({"analyze", file, "--against", earlier}).out;
  EXPECT_THAT(text, HasSubstr("in " + file + ": 80 x as much\n"));
  EXPECT_THAT(text, ContainsRegex("aten::mm +10.0 µs +4.46 ms +4.45 ms +446 x as much"));
  EXPECT_THAT(text, ContainsRegex("aten::relu +0 ns +10.0 µs +10.0 µs +new"));
  const auto json = parse_json(run({"analyze", "--json", file, "--against", earlier}).out, "json");
  ASSERT_TRUE(json);
  const Json& operators = json->at("views").at("difference").at(1).at("rows");
  EXPECT_NEAR(operators.at(0).at("change_share_ratio"), 445, 1e-6);
  EXPECT_TRUE(operators.at(1).at("change_share_ratio").is_null());
}

TEST(Analyze, DifferenceNamesModulesByTheirPath) {
  TraceText text;
  text.step(1, 0, 100).python("nn.Module: ResNet_0", 0, 90).python("nn.Module: Block_2", 10, 50);
  text.python("nn.Module: Conv2d_7", 20, 30).event("cpu_op", "aten::conv2d", 21, 20);
  const TemporaryFolder folder;
  const std::string file = folder.write("trace.json", text.text()).string();
  const Printed printed = run({"analyze", file, "--against", file});
  EXPECT_THAT(printed.out, AllOf(HasSubstr("\nResNet_0.Block_2.Conv2d_7 "),
                                 HasSubstr("do not hold the names of attributes")));
}

TEST(Analyze, SaysNothingOfGpusWhereThereIsNone) {
  const Printed printed =
      run({"analyze", data_file("workers"), "--view", "overview,operators,input"});
  EXPECT_EQ(printed.code, kDone) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("\nDataLoader  "));
  for (const char* of_gpu : {"Kernel", "Memcpy", "Memset", "Communication", "Runtime",
                             "device self", "copies between", "GPU", "CUDA", "cuda"}) {
    EXPECT_THAT(printed.out, Not(HasSubstr(of_gpu)));
  }
  const Printed with_gpu =
      run({"analyze", data_file("rank0"), "--view", "overview,operators,input"});
  EXPECT_THAT(with_gpu.out,
              AllOf(HasSubstr("\nKernel "), HasSubstr("device self"), HasSubstr("copies between")));
}

// Whatever stands in a trace, nothing of it steers the terminal.
TEST(Analyze, PrintsNoControlCharactersOfATrace) {
  const std::string hostile = "\x1b]0;owned\x07\x1b[2J\r\xE2\x80\xAE";
  TraceText text;
  const Json in_module = {{"Module Hierarchy", hostile}, {"External id", 1}};
  text.step(1, 0, 100).event("cpu_op", "aten::item", 0, 50, in_module);
  text.python(hostile, 0, 90).python("nn.Module: " + hostile, 0, 80);
  text.event("cpu_op", hostile, 60, 10).memory(62, 64, 64);
  text.kernel(hostile, 10, 20, 70, {{"External id", 1}});
  text.json()["deviceProperties"] = {{{"id", 0}, {"name", hostile}, {"computeMajor", 8}}};
  text.json()["recordingNotes"] = {hostile};
  const TemporaryFolder folder;
  const std::string file = folder.write("trace.json", text.text()).string();
  for (const char* view :
       {"overview", "operators", "kernels", "modules", "memory", "input", "trace", "distributed"}) {
    const Printed printed = run({"analyze", "--view", view, "--stacks", "--against", file, file});
    EXPECT_EQ(printed.code, kDone) << printed.err;
    for (const char* steering : {"\x1b", "\x07", "\r", "\xE2\x80\xAE"})
      EXPECT_EQ(printed.out.find(steering), std::string::npos) << view;
  }
}

TEST(Analyze, NamesDamageAndAnalysesTheRest) {
  const TemporaryFolder folder;
  const auto packed = read_file(data_file("workers"), 1 << 20);
  ASSERT_TRUE(packed);
  const auto file = folder.write("half.json.gz", packed->substr(0, packed->size() * 2 / 3));
  const Printed printed = run({"analyze", file.string()});
  EXPECT_EQ(printed.code, kWorkFailed);
  EXPECT_THAT(printed.err, AllOf(HasSubstr("half.json.gz"), HasSubstr("damaged")));
  EXPECT_THAT(printed.out, HasSubstr("DataLoader"));

  const Printed both = run({"analyze", (folder / "none.json").string(), data_file("workers")});
  EXPECT_EQ(both.code, kUsageError);
  EXPECT_THAT(both.err, HasSubstr("none.json"));
  EXPECT_THAT(both.out, HasSubstr("6 steps"));
}

TEST(Analyze, RefusesWhatIsNoTrace) {
  const TemporaryFolder folder;
  for (const char* content : {"", "{}", "not json", "{\"traceEvents\": []}"}) {
    const Printed printed = run({"analyze", folder.write("trace.json", content).string()});
    EXPECT_EQ(printed.code, kWorkFailed) << content;
    EXPECT_THAT(printed.err, AllOf(HasSubstr("error: "), HasSubstr("trace.json")));
    EXPECT_THAT(printed.out, Not(HasSubstr("step")));
  }
  EXPECT_EQ(run({"analyze"}).code, kUsageError);
  EXPECT_EQ(run({"analyze", "--view", "other", data_file("workers")}).code, kUsageError);
}

TEST(Findings, PrintTheTable) {
  EXPECT_THAT(run({"findings"}).out, AllOf(HasSubstr("pageable_copies"), HasSubstr("pinned_memory"),
                                           HasSubstr("over 1.0 %")));
  const auto json = parse_json(run({"findings", "--json"}).out, "findings");
  ASSERT_TRUE(json);
  EXPECT_GT(json->size(), 25U);
  EXPECT_EQ((*json)[0].at("id"), "data_loading");
}

}  // namespace
}  // namespace autotuned::daemon
