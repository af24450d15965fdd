// SPDX-License-Identifier: Apache-2.0
// What `init` writes, looked at by the real trainer: its data are there, and its model takes them.
#include <gmock/gmock.h>

#include <string>

#include "tests/daemon/guide/data_samples.hpp"
#include "tests/integration/scene.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::Not;

class InitAndCheck : public testing::TestWithParam<std::string> {};

TEST_P(InitAndCheck, FindNoMistake) {
  Scene scene;
  scene.set("AUTOTUNED_TRAINER=" + (tests::build_folder() / "bin/autotuned-trainer").string());
  tests::write_data(scene.folder(), "photos/", GetParam());
  const std::string recipe = (scene.folder() / "mine.yaml").string();
  const Outcome written =
      scene.command({"init", (scene.folder() / "photos").string(), "--output", recipe});
  ASSERT_EQ(written.code, 0) << written.err;
  const Outcome checked = scene.command({"check", recipe});
  EXPECT_EQ(checked.code, 0) << checked.err << scene.folder().read("mine.yaml");
  EXPECT_THAT(checked.err, Not(HasSubstr("were not looked at")));
}

INSTANTIATE_TEST_SUITE_P(Data, InitAndCheck, testing::ValuesIn(tests::kinds_of_data()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace autotuned
