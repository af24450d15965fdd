// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/page_markup.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <string>
#include <tuple>

#include "base/digest.hpp"
#include "daemon/web/page_data.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/web/stored_run.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return {};
  const std::size_t start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

std::string hash_of(const std::string& content) {
  Sha256 digest;
  digest.update(content);
  return "'sha256-" + digest.finish_base64() + "'";
}

TEST(PageMarkup, JoinsModules) {
  EXPECT_EQ(joined_modules({"// a\nexport function f() {}\nconst exported = 1;\n",
                            "import { f } from \"./a.js\";\nexport const b = f();"}),
            "// a\nfunction f() {}\nconst exported = 1;\nconst b = f();\n");
  EXPECT_EQ(joined_modules({"", "\n"}), "\n");
}

TEST(PageMarkup, ServesThePageWithoutAnythingInline) {
  const auto page = page_file("page.html");
  ASSERT_TRUE(page);
  for (const char* absent : {"@PAGE_", "<style", "style="})
    EXPECT_EQ(count_of(page->body, absent), 0U) << absent;
  EXPECT_EQ(count_of(page->body, "<script"), count_of(page->body, "\"></script>"));
  EXPECT_EQ(page->headers.at(0).first, "Content-Security-Policy");
  tests::expect_golden("daemon/web/golden/page_policy.txt", page->headers.at(0).second + "\n");
}

// Each file that the page names is there.
TEST(PageMarkup, HasItsFiles) {
  const std::string page = page_file("page.html")->body;
  std::size_t found = 0;
  for (std::size_t at = page.find("files/"); at != std::string::npos;
       at = page.find("files/", at + 1)) {
    const std::string name = page.substr(at, page.find('"', at) - at);
    const auto file = page_file(name);
    EXPECT_TRUE(file) << name;
    if (file) {
      EXPECT_FALSE(file->body.empty()) << name;
    }
    ++found;
  }
  EXPECT_EQ(found, 5U);
  EXPECT_GE(count_of(page_file("files/licence.txt")->body, "Permission is hereby granted"), 1U);
  EXPECT_GE(count_of(page_file("files/chart.js")->body, "Chart.js"), 1U);
  EXPECT_EQ(count_of(page_file("files/page.js")->body, "\nimport "), 0U);
  EXPECT_EQ(count_of(page_file("files/page.js")->body, "\nexport "), 0U);
}

TEST(PageMarkup, HasNoOtherFiles) {
  for (const char* const name : {"", "files/", "files/page.html", "files/../gate.cpp", "page.js"})
    EXPECT_FALSE(page_file(name)) << name;
}

TEST(PageMarkup, PutsARunIntoOneFile) {
  const EnvironmentVariable zone("TZ", "UTC");
  ::tzset();
  const TemporaryFolder folder;
  const RunRecord record = sample_record();
  store(record, folder / "history.db");
  const auto history = storage::History::open(folder / "history.db", storage::Access::read_only);
  ASSERT_TRUE(history);
  const auto run = run_page_json(*history, "last");
  ASSERT_TRUE(run) << run.error().message();
  const auto text = run_page_text(*history, "last");
  ASSERT_TRUE(text) << text.error().message();
  const std::string page = page_of_run(*run, *text);
  for (const char* absent : {"@PAGE_", " src=", "<link"})
    EXPECT_EQ(count_of(page, absent), 0U) << absent;
  EXPECT_GE(count_of(page, "Permission is hereby granted"), 1U);
  // What a reader without scripts sees.
  tests::Cases cases;
  cases.add("without scripts", between(page, "<noscript>", "</noscript>"));
  // Exactly what stands in it may act.
  std::string policy = between(page, "Content-Security-Policy\" content=\"", "\"");
  for (const auto& [begin, end, name] :
       {std::tuple("<style>", "</style>", "STYLE"), std::tuple("<script>", "</script>", "SCRIPT"),
        std::tuple("<script type=\"module\">", "</script>", "MODULE")}) {
    const std::string hash = hash_of(between(page, begin, end));
    const std::size_t at = policy.find(hash);
    ASSERT_NE(at, std::string::npos) << name;
    policy.replace(at, hash.size(), name);
  }
  cases.add("its policy", policy);
  tests::expect_golden("daemon/web/golden/page_of_run.txt", cases.text());
  const auto held = parse_json(
      between(page, "<script type=\"application/json\" id=\"run\">", "</script>"), "run");
  ASSERT_TRUE(held) << held.error().message();
  EXPECT_EQ(*held, *run);
}

TEST(PageMarkup, NothingOfARunBecomesMarkup) {
  const Json run = {{"recipe", "</script><script>alert(1)</script><!--"},
                    {"run", "@PAGE_HEAD@ @PAGE_TEXT@ @PAGE_END@"}};
  const std::string page = page_of_run(run, "</noscript>&<b> @PAGE_HEAD@ @PAGE_TEXT@ @PAGE_END@");
  EXPECT_EQ(count_of(page, "</noscript>"), 1U);
  const std::string shown = "&lt;/noscript>&amp;&lt;b> @PAGE_HEAD@ @PAGE_TEXT@ @PAGE_END@";
  EXPECT_EQ(count_of(page, "<pre>" + shown + "</pre>"), 1U);
  EXPECT_EQ(count_of(page, "alert(1)</script>"), 0U);
  EXPECT_EQ(count_of(page, "</script>"), 3U);
  const auto held = parse_json(
      between(page, "<script type=\"application/json\" id=\"run\">", "</script>"), "run");
  ASSERT_TRUE(held) << held.error().message();
  EXPECT_EQ(*held, run);
}

// 200 trials with all that a trial can have.
TEST(PageMarkup, StaysSmall) {
  RunRecord record = sample_record();
  for (int number = 3; number <= 200; ++number) {
    TrialRecord trial = sample_trial(number, "input.point_ops", Verdict::rejected,
                                     {1.0123456789, 0.9123456789, 1.1123456789, 40});
    for (int knob = 0; knob < 40; ++knob)
      trial.reference.set("a.knob.of.the.job." + std::to_string(knob), std::int64_t{knob});
    trial.proposal_reason = std::string(130, 'p');
    trial.reason = std::string(130, 'r');
    record.trials.push_back(trial);
    record.checks[number] = {
        {.risk = "numerics", .passed = true, .steps = 8, .detail = std::string(120, 'd')}};
  }
  const TemporaryFolder folder;
  store(record, folder / "history.db");
  auto history = storage::History::open(folder / "history.db", storage::Access::read_write);
  ASSERT_TRUE(history);
  const auto run = run_page_json(*history, "last");
  ASSERT_TRUE(run) << run.error().message();
  Json with_pairs = *run;
  for (Json& trial : with_pairs["trials"])
    trial["pair_ratios"] = std::vector<int>(40, 1012);
  EXPECT_EQ(with_pairs.at("trials").size(), 200U);
  EXPECT_LT(page_of_run(with_pairs, "").size(), 500'000U);
}

}  // namespace
}  // namespace autotuned::daemon
