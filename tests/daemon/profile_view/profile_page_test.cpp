// SPDX-License-Identifier: Apache-2.0
// The page of a profile, from the command line to the file.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "daemon/common/exit_codes.hpp"
#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/cli/printed.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::daemon {
namespace {

using testing::Contains;
using testing::HasSubstr;

// The text between the tags of the page's data.
std::string data_of(const std::string& page) {
  const std::string tag = R"(<script type="application/json" id="profile">)";
  const std::size_t begin = page.find(tag);
  if (begin == std::string::npos) return {};
  const std::size_t end = page.find("</script>", begin);
  return page.substr(begin + tag.size(), end - begin - tag.size());
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

TEST(ProfilePage, HoldsEverything) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "page.html";
  const Printed printed =
      run({"analyze", "--html", file.string(), data_file("rank0"), data_file("rank1")});
  EXPECT_EQ(printed.code, kDone) << printed.err;
  EXPECT_THAT(printed.err, HasSubstr("wrote all views as a page: " + file.string() + "\n"));
  const auto page = read_file(file, 8U << 20U);
  ASSERT_TRUE(page);
  for (const char* elsewhere : {"http:", "https:", " src=", "<link", "@import", "url("})
    EXPECT_EQ(page->find(elsewhere), std::string::npos) << elsewhere;
  const auto data = parse_json(data_of(*page), "page");
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_EQ(data->at("ranks").size(), 2U);
  const Json& rank = data->at("ranks")[0];
  EXPECT_EQ(rank.at("steps").size(), 4U);
  EXPECT_FALSE(rank.at("bars").at("bars").empty());
  EXPECT_FALSE(rank.at("flame").at("frames").empty());
  EXPECT_FALSE(rank.at("tables").at("operators")[0].at("rows").empty());
  EXPECT_FALSE(data->at("findings").empty());
  EXPECT_NE(
      run({"analyze", "--html", (folder / "none" / "page.html").string(), data_file("rank0")}).code,
      kDone);
}

// A page of before is replaced, and nothing else.
TEST(ProfilePage, ReplacesOnlyWhatItMay) {
  const TemporaryFolder folder;
  const std::filesystem::path trace = folder.write("trace.json", TraceText().text());
  const std::string whole = folder.read("trace.json");
  const std::filesystem::path before = folder.write("before.json", whole);
  folder.write("precious", "model");
  std::filesystem::create_symlink("precious", folder / "link");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  folder.write("run.html", "<!doctype html>\n<title>autotuned</title>");
  folder.write("recipe.yaml", "name: a page\n# <title>autotuned profile</title>\n");
  static_cast<void>(storage::History::open(folder / "history.db", storage::Access::read_write));
  const std::string history = folder.read("history.db");
  for (const char* name : {"link", "pipe", ".", "trace.json", "before.json", "precious", "run.html",
                           "recipe.yaml", "history.db", "history.db-wal", "history.db-owners"}) {
    const Printed refused = run({"analyze", trace.string(), "--against", before.string(), "--html",
                                 (folder / name).string()});
    EXPECT_EQ(refused.code, kUsageError) << name << refused.err;
    EXPECT_EQ(refused.out, "") << name << ": refused before the trace is read";
  }
  EXPECT_EQ(folder.read("precious"), "model");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_EQ(folder.read("trace.json"), whole);
  EXPECT_EQ(folder.read("before.json"), whole);
  EXPECT_EQ(folder.read("history.db"), history);
  EXPECT_FALSE(std::filesystem::exists(folder / "history.db-owners"));

  // An empty file first, then the page.
  folder.write("page.html", "");
  for (const char* rank : {"rank0", "rank1"}) {
    const Printed replaced =
        run({"analyze", data_file(rank), "--html", (folder / "page.html").string()});
    EXPECT_EQ(replaced.code, kDone) << replaced.err;
  }
  EXPECT_THAT(folder.read("page.html"), HasSubstr("<html"));
}

// Nothing but its own style and script may act on the page, whatever the trace holds.
TEST(ProfilePage, AllowsOnlyItsOwnStyleAndScript) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "page.html";
  EXPECT_EQ(run({"analyze", "--html", file.string(), data_file("rank0")}).code, kDone);
  const auto page = read_file(file, 8U << 20U);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->find("unsafe-inline"), std::string::npos);
  const auto source_of = [&](const std::string& tag) {
    const std::size_t begin = page->find("<" + tag + ">") + tag.size() + 2;
    Sha256 digest;
    digest.update(page->substr(begin, page->find("</" + tag + ">", begin) - begin));
    return tag + "-src 'sha256-" + digest.finish_base64() + "'";
  };
  for (const char* tag : {"style", "script"})
    EXPECT_NE(page->find(source_of(tag)), std::string::npos) << tag;
}

// The page of a trace of this text; it must be made.
std::string page_of_trace(const std::string& text, const std::string& name = "trace.json") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "page.html";
  const Printed printed =
      run({"analyze", "--html", file.string(), folder.write(name, text).string()});
  EXPECT_EQ(printed.code, kDone) << printed.err;
  const auto page = read_file(file, 8U << 20U);
  EXPECT_TRUE(page);
  return page.value_or("");
}

Json rank_of(const std::string& page) {
  const auto data = parse_json(data_of(page), "page");
  EXPECT_TRUE(data) << data.error().message();
  return data ? data->at("ranks")[0] : Json();
}

TEST(ProfilePage, LinksCausesWithWhatTheyCaused) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 0, 40, {{"Sequence number", 3}}).kernel("gemm", 10, 50, 20);
  text.event("cpu_op", "MmBackward0", 100, 30, {{"Sequence number", 3}, {"Fwd thread id", 1}});
  const Json bars = rank_of(page_of_trace(text.text())).at("bars");
  const auto name_of = [&](const Json& bar) {
    return bars.at("names").at(bar.at(1).get<std::size_t>()).get<std::string>();
  };
  const auto cause_of = [&](const std::string& name) {
    for (const Json& bar : bars.at("bars")) {
      if (bar.size() < 7 || name_of(bar) != name) continue;
      return name_of(bars.at("bars").at(bar.at(6).get<std::size_t>()));
    }
    return std::string();
  };
  EXPECT_EQ(cause_of("gemm"), "cudaLaunchKernel");
  EXPECT_EQ(cause_of("MmBackward0"), "aten::mm");
  EXPECT_EQ(cause_of("aten::mm"), "");
}

TEST(ProfilePage, HasThePhasesOfOperators) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 0, 40, {{"Sequence number", 3}});
  text.event("cpu_op", "MmBackward0", 100, 30, {{"Sequence number", 3}, {"Fwd thread id", 1}});
  const Json rank = rank_of(page_of_trace(text.text()));
  ASSERT_EQ(rank.at("cpu_phases").size(), 4U);
  EXPECT_EQ(rank.at("cpu_phases")[0], (Json{{"name", "forward"}, {"ns", 40'000.0}}));
  EXPECT_EQ(rank.at("cpu_phases")[1], (Json{{"name", "backward"}, {"ns", 30'000.0}}));
  EXPECT_EQ(rank.at("steps")[0].at("cpu").size(), 4U);
}

TEST(ProfilePage, HasCallStacks) {
  TraceText text;
  text.python("train.py(30): main", 0, 100).event("cpu_op", "aten::mm", 0, 40);
  const Json rank = rank_of(page_of_trace(text.text()));
  const Json& tables = rank.at("tables").at("operators");
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].at("columns").back().at("key"), "stack");
  EXPECT_EQ(tables[1].at("rows")[0].back(), "train.py(30): main");
  EXPECT_EQ(rank.at("python_flame").at("frames").size(), 2U);
  EXPECT_EQ(rank.at("flame").at("frames").size(), 1U);
}

// Ten thousand calls, each with a long stack of its own.
TEST(ProfilePage, IsBounded) {
  TraceText text;
  const std::string function = std::string(200, 'f');
  for (int i = 0; i < 10'000; ++i) {
    std::string stack;
    for (int frame = 0; frame < 5; ++frame)
      stack += function + std::to_string(i) + "." + std::to_string(frame) + ";";
    text.event("cpu_op", "aten::mm", 10 * i, 5, {{"Call stack", stack}});
  }
  const std::string page = page_of_trace(text.json().dump());
  EXPECT_LT(page.size(), 3U << 20U);
  const Json table = rank_of(page).at("tables").at("operators")[1];
  EXPECT_EQ(table.at("rows").size() + table.at("left_out").get<std::size_t>(), 10'000U);
}

std::vector<std::string> texts(const Json& list) {
  return list.get<std::vector<std::string>>();
}

// Everywhere where a trace may put text.
std::string hostile_trace(const std::string& hostile) {
  Json events = Json::array();
  const auto add = [&](const std::string& category, const std::string& name,
                       const Json& arguments) {
    events.push_back({{"ph", "X"},
                      {"cat", category},
                      {"name", name},
                      {"pid", hostile},
                      {"tid", hostile},
                      {"ts", 1},
                      {"dur", 10},
                      {"args", arguments}});
  };
  add("python_function", hostile, {{"Python id", 1}});
  add("python_function", "nn.Module: " + hostile, {{"Python id", 2}, {"Python parent id", 1}});
  add("cpu_op", hostile, {{"Input Dims", {hostile}}});
  add("cpu_op", "aten::mm",
      {{"Call stack", hostile + ";" + hostile}, {"Module Hierarchy", hostile}});
  add("user_annotation", hostile, Json::object());
  add("user_annotation", "ProfilerStep#" + hostile, Json::object());
  add("cuda_runtime", hostile, {{"correlation", 1}});
  add("kernel", hostile, {{"correlation", 1}, {"device", 0}});
  add(hostile, hostile, Json::object());
  events.push_back({{"ph", "M"},
                    {"name", "thread_name"},
                    {"pid", hostile},
                    {"tid", hostile},
                    {"args", {{"name", hostile}}}});
  return Json({{"traceEvents", events},
               {"deviceProperties", {{{"id", 0}, {"name", hostile}}}},
               {"recordingNotes", {hostile}}})
      .dump();
}

// The page has the markup of its own and no other, whatever stands in the trace.
void expect_no_markup(const std::string& page) {
  EXPECT_EQ(count_of(page, "<script"), 2U);
  EXPECT_EQ(count_of(page, "</script"), 2U);
  for (const char* markup : {"<img", "<!--", "<b>", "\xE2\x80\xA8", "\xE2\x80\xA9"})
    EXPECT_EQ(count_of(page, markup), 0U) << markup;
  EXPECT_EQ(count_of(data_of(page), "<"), 0U);
}

TEST(ProfilePage, NamesOfATraceNeverBecomeMarkup) {
  const std::string hostile =
      "</script><script>alert(1)</script><img src=x onerror=alert(2)><!--<script>@PAGE_SCRIPT@";
  const std::string page = page_of_trace(hostile_trace(hostile), "<b>.json");
  expect_no_markup(page);
  const Json rank = rank_of(page);
  EXPECT_EQ(rank.at("tables").at("kernels")[0].at("rows")[0][0], hostile);
  EXPECT_THAT(texts(rank.at("bars").at("names")), Contains(hostile));
  EXPECT_THAT(texts(rank.at("python_flame").at("names")), Contains(hostile));
}

TEST(ProfilePage, KeepsQuotesAndSeparatorsAsText) {
  const std::string hostile =
      "\"'`\\\" ${alert(1)} \xE2\x80\xA8 alert(2) \xE2\x80\xA9 &lt;b&gt; ]]> \x01 \x7F";
  const std::string page = page_of_trace(hostile_trace(hostile));
  expect_no_markup(page);
  const Json rank = rank_of(page);
  EXPECT_EQ(rank.at("tables").at("kernels")[0].at("rows")[0][0], hostile);
  EXPECT_EQ(rank.at("tables").at("operators").back().at("rows").size(), 2U);
}

// Bytes that are no text, and escapes of half a character: the page stays UTF-8 and JSON.
TEST(ProfilePage, IsTextWhateverTheTraceIs) {
  const std::string mark = "PLACE";
  for (const char* bytes : {"\xFF\xFE", "\xC0\xAF", "\xED\xA0\x80", "\xE2\x80", "\\ud800",
                            "\\udc00\\u0000", "\\u2028"}) {
    std::string trace = hostile_trace(mark);
    for (std::size_t at = trace.find(mark); at != std::string::npos; at = trace.find(mark, at))
      trace.replace(at, mark.size(), std::string("<b>") + bytes + "</script>");
    const std::string page = page_of_trace(trace);
    expect_no_markup(page);
    // nlohmann refuses what is not UTF-8; the rest of the page is ours.
    const Json rank = rank_of(page);
    EXPECT_FALSE(rank.at("bars").at("bars").empty());
    EXPECT_THAT(rank.at("tables").at("kernels")[0].at("rows")[0][0].get<std::string>(),
                testing::StartsWith("<b>"));
  }
}

}  // namespace
}  // namespace autotuned::daemon
