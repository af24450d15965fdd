// SPDX-License-Identifier: Apache-2.0
// A model that was trained on other data is not replaced without a word, although the files have the same names and sizes.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kSamples = 16;
constexpr int kPixels = 64;  // 8 x 8

// The big-endian numbers of the header of an IDX file.
std::string idx_numbers(const std::vector<int>& numbers) {
  std::string bytes;
  for (const int number : numbers)
    bytes += {'\0', '\0', '\0', static_cast<char>(number)};
  return bytes;
}

TEST(ChangedData, OfAModelThatIsReplacedAreTold) {
  Scene scene;
  scene.use_real_trainer();
  scene.write_job(
      "model: {type: mlp, hidden: 8, classes: 4}\n"
      "data: {type: idx, images: images, labels: labels}\ninput: [scale: {by: 1/255}]\n"
      "optimizer: {type: sgd, lr: 0.1}\ntrain: {steps: 2, batch_size: 4}\ntune: {budget: 0s}\n");
  const auto write_data = [&scene](int first_label) {
    std::string labels = std::string("\0\0\x08\x01", 4) + idx_numbers({kSamples});
    for (int i = 0; i < kSamples; ++i)
      labels += static_cast<char>((first_label + i) % 4);
    scene.folder().write("labels", labels);
    scene.folder().write("images", std::string("\0\0\x08\x03", 4) + idx_numbers({kSamples, 8, 8}) +
                                       std::string(kSamples * kPixels, '\x10'));
  };
  const std::string words = ", which was trained on other data";
  write_data(0);
  const Json first = result_of(scene.run());
  EXPECT_EQ(first.at("training").at("data").at("train").at("samples"), kSamples);
  const Outcome same = ended(0, scene.run());
  EXPECT_THAT(same.err, Not(HasSubstr(words)));
  write_data(1);
  Told(scene, "changed_data").ends(0, "other data", scene.run(), words);
}

}  // namespace
}  // namespace autotuned
