// SPDX-License-Identifier: Apache-2.0
#include "tests/style/layering.hpp"
#include "tests/places.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace autotuned::style {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// More are hard to find one's way in.
constexpr std::size_t kMaxUnits = 24;

constexpr std::string_view kTables = R"(
<!-- layering:begin -->
| folder | may include | what it is for |
|---|---|---|
| `base` | nothing | what all stand on |
| `trainer/input` | `base` | batches |
| `trainer` | `base`, `trainer/input` | training |
| `plugins/sdk` | nothing | what plugins include |
| `plugins/*` | `plugins/sdk` | plugins, one in each |
| `tests`, `tests/*` | anything | tests |
<!-- layering:end -->
<!-- boundaries:begin -->
| header | only in |
|---|---|
| `torch/`, `ATen/` | `trainer/*` but not `trainer/input/*` |
<!-- boundaries:end -->
)";

std::vector<std::string> check(const std::vector<SourceFile>& files) {
  return violations(read_rules(kTables), files);
}

Rules rules_of(std::map<std::string, FolderRule> folders) {
  return {std::move(folders), {}};
}

FolderRule allowing(std::set<std::string> folders, std::string purpose = "") {
  return {std::move(folders), std::move(purpose)};
}

std::string architecture_of(const std::vector<SourceFile>& tree) {
  for (const SourceFile& file : tree) {
    if (file.path == "docs/architecture.md") return file.text;
  }
  return {};
}

TEST(Layering, TreeObeysTheTable) {
  const std::vector<SourceFile> tree = read_tree(tests::source_folder());
  EXPECT_THAT(violations(read_rules(architecture_of(tree)), tree), IsEmpty());
}

// Without this, two folders that may include each other would pass.
TEST(Layering, TableHasNoCycle) {
  EXPECT_THAT(row_cycles(read_rules(architecture_of(read_tree(tests::source_folder())))),
              IsEmpty());
}

TEST(Layering, TableHasNoUselessRow) {
  const std::vector<SourceFile> tree = read_tree(tests::source_folder());
  EXPECT_THAT(useless_rows(read_rules(architecture_of(tree)), tree), IsEmpty());
}

TEST(Layering, NoFilesIncludeOneAnother) {
  EXPECT_THAT(include_cycles(read_tree(tests::source_folder())), IsEmpty());
}

TEST(Layering, FoldersStaySmall) {
  EXPECT_THAT(crowded_folders(read_tree(tests::source_folder()), kMaxUnits), IsEmpty());
}

TEST(Layering, AcceptsWhatTheTableAllows) {
  EXPECT_THAT(check({{"base/a.hpp", "#include <string>\n"},
                     {"trainer/input/b.cpp", "#include \"base/a.hpp\"\n"},
                     {"trainer/c.hpp", "#include <torch/torch.h>\n#include \"base/a.hpp\"\n"},
                     {"plugins/x/x.cpp", "#include \"plugins/sdk/y.hpp\"\n"},
                     {"plugins/sdk/y.hpp", ""},
                     {"tests/d.cpp", "#include \"trainer/c.hpp\"\n#include <ATen/ATen.h>\n"},
                     {"tests/a/b/d.cpp", "#include \"trainer/c.hpp\"\n"},
                     {"base/a_test.cpp", "#include \"trainer/c.hpp\"\n"}}),
              IsEmpty());
}

TEST(Layering, RefusesAnArrowUp) {
  EXPECT_THAT(check({{"base/a.cpp", "\n#include \"trainer/b.hpp\"\n"}, {"trainer/b.hpp", ""}}),
              ElementsAre("base/a.cpp:2: base may not include trainer (trainer/b.hpp)"));
}

TEST(Layering, RefusesAHeaderOutsideItsBoundary) {
  EXPECT_THAT(check({{"trainer/input/a.cpp", "#include <ATen/ATen.h>\n"}}),
              ElementsAre("trainer/input/a.cpp:1: may not include <ATen/ATen.h>"));
}

TEST(Layering, RefusesAHeaderThatLeaksThroughAnother) {
  EXPECT_THAT(check({{"base/a.cpp", "#include \"base/b.hpp\"\n"},
                     {"base/b.hpp", "#  include <torch/torch.h>\n"}}),
              ElementsAre("base/a.cpp:1: base/b.hpp brings in <torch/torch.h>",
                          "base/b.hpp:1: may not include <torch/torch.h>"));
}

TEST(Layering, RefusesIncludesThatAreNotFromTheRoot) {
  EXPECT_THAT(check({{"base/a.cpp", "#include \"b.hpp\"\n"}, {"base/b.hpp", ""}}),
              ElementsAre("base/a.cpp:1: \"b.hpp\" is not a file of this tree"));
}

TEST(Layering, RefusesAFolderThatIsNotListed) {
  EXPECT_THAT(check({{"misc/a.cpp", ""}, {"trainer/feed/a.cpp", ""}}),
              ElementsAre(AllOf(HasSubstr("misc/a.cpp"), HasSubstr("does not list")),
                          AllOf(HasSubstr("trainer/feed/a.cpp"), HasSubstr("does not list"))));
}

TEST(Layering, RefusesAnArrowBetweenFoldersOfOneRow) {
  EXPECT_THAT(
      check({{"plugins/a/a.cpp", "#include \"plugins/b/b.hpp\"\n"},
             {"plugins/b/b.hpp", "#include \"base/a.hpp\"\n"},
             {"base/a.hpp", ""}}),
      ElementsAre("plugins/a/a.cpp:1: plugins/a may not include plugins/b (plugins/b/b.hpp)",
                  "plugins/b/b.hpp:1: plugins/b may not include base (base/a.hpp)"));
}

TEST(Layering, PrefersTheRowOfTheVeryFolder) {
  const Rules rules = read_rules(kTables);
  EXPECT_EQ(rules.folders.at("plugins/sdk").purpose, "what plugins include");
  EXPECT_THAT(
      check({{"plugins/sdk/a.hpp", "#include \"plugins/x/b.hpp\"\n"}, {"plugins/x/b.hpp", ""}}),
      ElementsAre(HasSubstr("plugins/sdk may not include plugins/x")));
}

TEST(Layering, FindsUselessRows) {
  const Rules rules = rules_of({{"base", allowing({}, "what all stand on")},
                                {"gone", allowing({"base"}, "nothing any more")},
                                {"mute", allowing({"base", "gone", "anything"})}});
  EXPECT_THAT(useless_rows(rules, {{"base/a.cpp", ""}, {"mute/b.cpp", ""}, {"gone/c.md", ""}}),
              ElementsAre("gone holds no sources", "mute is listed without saying what it is for",
                          "mute may include gone, which holds no sources"));
}

TEST(Layering, FindsRowsThatMayIncludeOneAnother) {
  EXPECT_THAT(row_cycles(rules_of(
                  {{"a", allowing({"b/*"})}, {"b/c", allowing({"a", "d"})}, {"d", allowing({})}})),
              ElementsAre("a -> b/c -> a"));
  EXPECT_THAT(row_cycles(rules_of(
                  {{"a", allowing({"b", "c"})}, {"b", allowing({"c"})}, {"c", allowing({})}})),
              IsEmpty());
  EXPECT_THAT(row_cycles(rules_of({{"b/*", allowing({"b/*"})}})), ElementsAre("b/* -> b/*"));
}

TEST(Layering, FindsFilesThatIncludeOneAnother) {
  EXPECT_THAT(include_cycles({{"a/a.hpp", "#include \"a/b.hpp\"\n#include \"a/d.hpp\"\n"},
                              {"a/b.hpp", "#include \"a/c.hpp\"\n"},
                              {"a/c.hpp", "#include <vector>\n#include \"a/b.hpp\"\n"},
                              {"a/d.hpp", "#include \"a/c.hpp\"\n"}}),
              ElementsAre("a/b.hpp -> a/c.hpp -> a/b.hpp"));
  EXPECT_THAT(include_cycles({{"a/a.hpp", "#include \"a/b.hpp\"\n#include \"a/c.hpp\"\n"},
                              {"a/b.hpp", "#include \"a/c.hpp\"\n"},
                              {"a/c.hpp", ""}}),
              IsEmpty());
}

TEST(Layering, CountsTheUnitsOfAFolderItself) {
  const std::vector<SourceFile> files = {
      {"a/b.cpp", ""},   {"a/b.hpp", ""},     {"a/c.hpp", ""},     {"a/CMakeLists.txt", ""},
      {"a/d/e.cpp", ""}, {"tests/x.cpp", ""}, {"tests/y.cpp", ""}, {"tests/z.cpp", ""}};
  EXPECT_THAT(crowded_folders(files, 2), IsEmpty());
  EXPECT_THAT(crowded_folders(files, 1), ElementsAre(HasSubstr("a holds 2 units, more than 1")));
}

TEST(Layering, SurvivesIncludeCycles) {
  EXPECT_THAT(check({{"base/a.hpp", "#include \"base/b.hpp\"\n"},
                     {"base/b.hpp", "#include \"base/a.hpp\"\n"}}),
              IsEmpty());
}

TEST(Layering, SaysWhichTableIsMissing) {
  try {
    (void)read_rules("# Architecture\n");
    FAIL() << "accepted a page without tables";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("layering:begin"));
  }
}

}  // namespace
}  // namespace autotuned::style
