// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/mask_numbers.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <string>
#include <vector>

#include "daemon/guide/data_folder.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/guide/data_samples.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/input/png_file.hpp"

namespace autotuned::daemon {
namespace {

using input::png_file;
using testing::ElementsAre;

TEST(MaskNumbers, AreThoseOfThePixels) {
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> files = {
      folder.write("a.png", png_file(1, 3, {0, 7, 7})),
      folder.write("b.png", png_file(1, 3, {2, 2, 255}, input::kPalettePng)),
      folder.write("c.png", png_file(1, 2, {1, 2, 3, 4, 5, 6}, input::kColourPng)),
      folder.write("d.png", "no picture"), folder / "gone.png"};
  const MaskNumbers found = numbers_in_masks(files, 100);
  EXPECT_EQ(found.masks, 2);
  EXPECT_THAT(found.numbers, ElementsAre(0, 2, 7, 255));
  EXPECT_THAT(found.others, ElementsAre(files[2]));
  EXPECT_EQ(numbers_in_masks({}, 100).masks, 0);
}

TEST(MaskNumbers, AreLookedForInMasksAtEvenDistances) {
  const TemporaryFolder folder;
  std::vector<std::filesystem::path> files;
  for (std::uint8_t i = 0; i < 40; ++i)
    files.push_back(folder.write(std::to_string(i) + ".png", png_file(1, 1, {i})));
  const MaskNumbers found = numbers_in_masks(files, 4);
  EXPECT_EQ(found.masks, 4);
  EXPECT_THAT(found.numbers, ElementsAre(0, 10, 20, 30));
  EXPECT_EQ(numbers_in_masks(files, 100).masks, 40);
}

TEST(MaskClasses, FollowFromTheNumbers) {
  struct Case {
    std::set<int> numbers;
    std::int64_t classes;
    std::vector<int> values;
    bool ignores_255;
  };
  std::set<int> all;  // 0 to 254
  for (int i = 0; i < 255; ++i)
    all.insert(i);
  const std::vector<Case> cases = {
      {{}, 2, {}, false},
      {{0}, 2, {}, false},
      {{0, 1, 2}, 3, {}, false},
      {{0, 1, 255}, 2, {}, true},
      {{0, 1, 3, 4, 255}, 5, {}, true},  // a rare class is in no mask that was looked at
      {{0, 255}, 2, {0, 255}, false},
      {{255}, 2, {}, true},
      {{1, 2, 3}, 3, {1, 2, 3}, false},
      {{1, 2, 3, 255}, 3, {1, 2, 3}, true},
      {{0, 128, 255}, 3, {0, 128, 255}, false},
      {{50, 100}, 2, {50, 100}, false},
      {{7}, 8, {}, false},
      {all, 255, {}, false},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(text_of(one.numbers));
    const MaskClassesGuess guess = classes_of(one.numbers);
    EXPECT_EQ(guess.classes, one.classes);
    EXPECT_EQ(guess.values, one.values);
    EXPECT_EQ(guess.ignores_255, one.ignores_255);
  }
  EXPECT_EQ(text_of(all), "0 to 254");
  EXPECT_EQ(text_of({0, 255}), "0, 255");
}

TEST(MaskNumbers, BecomeClassesOfTheRecipe) {
  const TemporaryFolder folder;
  tests::Cases cases(folder.path());
  const auto look = [&](const char* given) {
    const auto found = look_at_data(folder.path(), folder.path());
    ASSERT_TRUE(found);
    std::string told =
        found->data + "\n  " + std::to_string(found->classes) + " classes; " + found->masks_text;
    for (const std::string& note : found->notes)
      told += "\n  note: " + note;
    cases.add(given, told);
  };
  for (const char* const name : {"a", "b", "c"}) {
    folder.write("images/" + std::string(name) + ".jpg", tests::small_picture());
    folder.write("masks/" + std::string(name) + ".png", png_file(1, 3, {0, 100, 200}));
  }
  look("three masks");
  folder.write("masks/b.png", png_file(1, 1, {1, 2, 3}, input::kColourPng));
  look("one of them holds colours");
  for (const char* const name : {"a", "c"}) {
    folder.write("masks/" + std::string(name) + ".png",
                 png_file(1, 1, {1, 2, 3}, input::kColourPng));
  }
  look("all of them do");
  tests::expect_golden("daemon/guide/golden/mask_numbers.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::daemon
