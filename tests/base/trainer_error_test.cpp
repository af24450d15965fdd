// SPDX-License-Identifier: Apache-2.0
#include "base/trainer_error.hpp"

#include <gmock/gmock.h>

namespace autotuned {
namespace {

TEST(TrainerError, NamesTheExtensionsThatCausedIt) {
  Json answer = {{"kind", "internal"}, {"what", "it cheats"}, {"where", "training step"}};
  EXPECT_THAT(trainer_error_from(answer).extensions, testing::IsEmpty());
  answer["extensions"] = {"mine", "other"};
  const Error error = trainer_error_from(answer);
  EXPECT_THAT(error.extensions, testing::ElementsAre("mine", "other"));
  EXPECT_EQ(error.kind, ErrorKind::internal);
  EXPECT_EQ(error.message(), "training step: it cheats");
  answer["extensions"] = "mine";
  EXPECT_THAT(trainer_error_from(answer).extensions, testing::IsEmpty());
}

}  // namespace
}  // namespace autotuned
