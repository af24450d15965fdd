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
#include "tests/golden.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

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

  EXPECT_NE(printed.find(block_behind("README.md", "`" + command + "`")), std::string::npos);
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

// What commands print about traces, with their exit codes.
class PrintedViews {
 public:
  PrintedViews() : cases_(folder_.path()) {}

  // Returns the name of the file.
  std::string write(const std::string& name, const std::string& content) {
    return folder_.write(name, content).string();
  }
  Printed add(const std::vector<std::string>& arguments) {
    const Printed printed = run(arguments);
    std::string given = "autotuned";
    for (const std::string& argument : arguments)
      given += " " + argument;
    cases_.add(without_folders(given) + ": " + std::to_string(printed.code),
               "\n" + without_folders(without_trailing_blanks(printed.out + printed.err)));
    return printed;
  }
  void expect(const std::string& golden) const {
    tests::expect_golden("daemon/cli/golden/" + golden, cases_.text());
  }

 private:
  [[nodiscard]] std::string without_folders(const std::string& text) const {
    return tests::with_here(tests::with_here(text, tests::source_folder()), folder_.path());
  }

  TemporaryFolder folder_;
  tests::Cases cases_;
};

TEST(Analyze, ViewsForPeople) {
  PrintedViews views;
  const auto view = [&](const std::string& names, const std::string& trace,
                        const std::vector<std::string>& options = {"--top", "3"}) {
    std::vector<std::string> arguments = {"analyze", "--view", names};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.push_back(data_file(trace));
    return views.add(arguments);
  };
  views.add({"analyze", data_file("workers")});
  views.add({"analyze", data_file("rank0")});
  view("operators,kernels,input", "rank0");
  view("kernels,modules", "workers");
  const Printed both = view("memory,input", "classifier", {"--view", "trace", "--top", "3"});
  EXPECT_EQ(both.out.find("findings"), std::string::npos) << "the overview was not asked for";
  view("operators", "classifier", {"--shapes", "--top", "3"});
  view("operators", "workers", {"--stacks", "--top", "3"});
  view("memory", "classifier", {"--range", "0:5", "--top", "3"});
  view("memory", "classifier", {"--range", "900000:"});
  view("memory", "classifier", {"--sort", "self allocated", "--top", "1"});
  view("kernels", "rank0", {"--sort", "colour"});
  view("other", "workers");
  views.add({"analyze", "--view", "distributed", data_file("rank0"), data_file("rank1")});
  views.add({"analyze"});
  views.expect("analyze_views.txt");
}

TEST(Analyze, GroupsOperatorsByTheirStacks) {
  TraceText text;
  text.python("train.py(30): main", 0, 200).python("model.py(12): forward", 10, 40);
  text.event("cpu_op", "aten::mm", 15, 10).event("cpu_op", "aten::mm", 70, 5);
  const TemporaryFolder folder;
  const std::string file = folder.write("trace.json", text.text()).string();
  const Printed printed = run({"analyze", "--view", "operators", "--stacks", file});
  EXPECT_EQ(printed.code, kDone) << printed.err;
  EXPECT_NE(printed.out.find("model.py(12): forward ← train.py(30): main"), std::string::npos);
  const auto json =
      parse_json(run({"analyze", "--json", "--view", "operators", "--stacks", file}).out, "json");
  ASSERT_TRUE(json);
  const Json& rows = json->at("views").at("operators")[0].at("rows");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].at("stack"), "train.py(30): main");
  EXPECT_EQ(json->at("operators").size(), 1U) << "the table by name stays as it is";
}

TEST(Analyze, SaysWhichOptionNoViewObeys) {
  const auto warning = [](const std::vector<std::string>& options) {
    std::vector<std::string> command = {"analyze", data_file("classifier")};
    command.insert(command.end(), options.begin(), options.end());
    return run(command).err;
  };
  EXPECT_THAT(warning({"--range", "0:5"}), HasSubstr("--range changes nothing here"));
  EXPECT_NE(warning({"--shapes"}), "");
  EXPECT_EQ(warning({"--shapes", "--view", "operators"}), "");
}

TEST(Analyze, RefusesARangeThatIsNone) {
  for (const char* bad : {"5", "a:b", "9:3", "-1:2", "nan:3", "1:2:3"}) {
    const Printed printed =
        run({"analyze", "--view", "memory", "--range", bad, data_file("classifier")});
    EXPECT_EQ(printed.code, kUsageError) << bad;
    EXPECT_THAT(printed.err, HasSubstr("FROM:TO")) << bad;
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
  PrintedViews views;
  views.add({"analyze", "--against", data_file("rank0"), data_file("rank1"), "--view", "kernels",
             "--top", "3"});
  // Large growth is a factor, and what is new has none.
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 0, 10);
  const std::string before = views.write("before.json", text.text());
  TraceText grown;
  grown.step(1, 0, 8000).event("cpu_op", "aten::mm", 0, 4460);
  grown.event("cpu_op", "aten::relu", 5000, 10);
  const std::string after = views.write("after.json", grown.text());
  views.add({"analyze", after, "--against", before});
  // Modules are named by their path.
  text.python("nn.Module: ResNet_0", 0, 90).python("nn.Module: Block_2", 10, 50);
  text.python("nn.Module: Conv2d_7", 20, 30).event("cpu_op", "aten::conv2d", 21, 20);
  const std::string modules = views.write("modules.json", text.text());
  views.add({"analyze", modules, "--against", modules});
  views.expect("analyze_difference.txt");
  const auto json = parse_json(run({"analyze", "--json", after, "--against", before}).out, "json");
  ASSERT_TRUE(json);
  const Json& operators = json->at("views").at("difference").at(1).at("rows");
  EXPECT_NEAR(operators.at(0).at("change_share_ratio"), 445, 1e-6);
  EXPECT_TRUE(operators.at(1).at("change_share_ratio").is_null());
  EXPECT_EQ(run({"analyze", "--against", "none.json", data_file("rank1")}).code, kUsageError);
}

TEST(Analyze, SaysNothingOfGpusWhereThereIsNone) {
  const Printed printed =
      run({"analyze", data_file("workers"), "--view", "overview,operators,input"});
  EXPECT_EQ(printed.code, kDone) << printed.err;
  for (const char* of_gpu : {"Kernel", "Memcpy", "Memset", "Communication", "Runtime",
                             "device self", "copies between", "GPU", "CUDA", "cuda"})
    EXPECT_EQ(printed.out.find(of_gpu), std::string::npos) << of_gpu;
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
  PrintedViews views;
  const auto packed = read_file(data_file("workers"), 1 << 20);
  ASSERT_TRUE(packed);
  const std::string half = views.write("half.json.gz", packed->substr(0, packed->size() * 2 / 3));
  EXPECT_EQ(views.add({"analyze", half}).code, kWorkFailed);
  EXPECT_EQ(views.add({"analyze", half + ".none", data_file("workers")}).code, kUsageError);
  for (const char* content : {"", "{}", "not json", "{\"traceEvents\": []}"})
    EXPECT_EQ(views.add({"analyze", views.write("trace.json", content)}).code, kWorkFailed);
  views.expect("analyze_damage.txt");
}

TEST(Findings, PrintTheTable) {
  tests::expect_golden("daemon/cli/golden/findings.txt",
                       without_trailing_blanks(run({"findings"}).out));
  const auto json = parse_json(run({"findings", "--json"}).out, "findings");
  ASSERT_TRUE(json);
  EXPECT_GT(json->size(), 25U);
  EXPECT_EQ((*json)[0].at("id"), "data_loading");
}

}  // namespace
}  // namespace autotuned::daemon
