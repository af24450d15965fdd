// SPDX-License-Identifier: Apache-2.0
#include "tests/style/layering.hpp"
#include "tests/places.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

namespace autotuned::style {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kTables = R"(
<!-- layering:begin -->
| folder | may include |
|---|---|
| `base` | nothing |
| `trainer/input` | `base` |
| `trainer` | `base`, `trainer/input` |
| `tests` | anything |
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
  const Rules rules = read_rules(architecture_of(read_tree(tests::source_folder())));
  std::set<std::string> done;
  const std::function<void(const std::string&, std::set<std::string>)> visit =
      [&](const std::string& folder, std::set<std::string> above) {
        ASSERT_TRUE(above.insert(folder).second) << "a cycle goes through " << folder;
        if (!rules.folders.contains(folder) || done.contains(folder)) return;
        for (const std::string& next : rules.folders.at(folder))
          visit(next, above);
        done.insert(folder);
      };
  for (const auto& [folder, unused] : rules.folders)
    visit(folder, {});
}

TEST(Layering, AcceptsWhatTheTableAllows) {
  EXPECT_THAT(check({{"base/a.hpp", "#include <string>\n"},
                     {"trainer/input/b.cpp", "#include \"base/a.hpp\"\n"},
                     {"trainer/c.hpp", "#include <torch/torch.h>\n#include \"base/a.hpp\"\n"},
                     {"tests/d.cpp", "#include \"trainer/c.hpp\"\n#include <ATen/ATen.h>\n"},
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
  EXPECT_THAT(check({{"misc/a.cpp", ""}}), ElementsAre(HasSubstr("does not list")));
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
