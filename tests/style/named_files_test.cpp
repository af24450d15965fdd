// SPDX-License-Identifier: Apache-2.0
#include "tests/style/named_files.hpp"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/places.hpp"

namespace autotuned::style {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kArchitecture = "docs/architecture.md";

std::vector<std::string> missing(const std::string& text, Naming naming = Naming::by_path) {
  const NamedFiles names({{"base/a.hpp", ""}, {"tuner/deep/signals_a.cpp", ""}, {"README.md", ""}});
  return names.missing({"x.md", text}, naming);
}

// The files of this folder are full of names that they make up.
TEST(NamedFiles, AllOfTheTreeAreThere) {
  const std::vector<SourceFile> tree = read_tree(tests::source_folder());
  const NamedFiles names(tree);
  std::vector<std::string> found;
  for (const SourceFile& file : tree) {
    if (file.path.starts_with("tests/style/")) continue;
    for (std::string& text : names.missing(file, Naming::by_path))
      found.push_back(std::move(text));
  }
  EXPECT_THAT(found, IsEmpty());
}

TEST(NamedFiles, ArchitectureNamesNoOther) {
  const std::vector<SourceFile> tree = read_tree(tests::source_folder());
  const NamedFiles names(tree);
  bool is_read = false;
  for (const SourceFile& file : tree) {
    if (file.path != kArchitecture) continue;
    is_read = true;
    EXPECT_THAT(names.missing(file, Naming::shortened), IsEmpty());
  }
  EXPECT_TRUE(is_read) << "there is no " << kArchitecture;
}

TEST(NamedFiles, FindsWhatIsNotThere) {
  EXPECT_THAT(missing("`base/a.hpp`\n(base/b.hpp), tuner/a.cpp.\n"),
              ElementsAre("x.md:2: there is no base/b.hpp", "x.md:2: there is no tuner/a.cpp"));
  EXPECT_THAT(missing("`tuner/deep/signals*.cpp`, `tuner/*.cpp`, `base/*_a.hpp`\n"),
              ElementsAre("x.md:1: there is no base/*_a.hpp"));
}

TEST(NamedFiles, LeavesOutWhatIsNotOurs) {
  EXPECT_THAT(missing("/base/b.hpp ../base/b.hpp ${X}/base/b.hpp mine/b.cpp b.cpp base/b.cppx\n"),
              IsEmpty());
}

TEST(NamedFiles, TakesShortNamesWhereTheyAreMeant) {
  EXPECT_THAT(missing("`a.hpp` and `deep/signals_a.cpp`, `signals*.cpp`\n", Naming::shortened),
              IsEmpty());
  EXPECT_THAT(
      missing("`signals_a.hpp`, a.hpp in deep/a.hpp, base/deep/signals_a.cpp\n", Naming::shortened),
      ElementsAre("x.md:1: there is no signals_a.hpp", "x.md:1: there is no deep/a.hpp",
                  "x.md:1: there is no base/deep/signals_a.cpp"));
}

}  // namespace
}  // namespace autotuned::style
