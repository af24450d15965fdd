// SPDX-License-Identifier: Apache-2.0
#include "base/error_json.hpp"

#include <gmock/gmock.h>

namespace autotuned {
namespace {

TEST(ErrorJson, NamesTheExtensionsThatCausedIt) {
  Json answer = {{"kind", "internal"}, {"what", "it cheats"}, {"where", "training step"}};
  EXPECT_THAT(error_from_json(answer).extensions, testing::IsEmpty());
  answer["extensions"] = {"mine", "other"};
  const Error error = error_from_json(answer);
  EXPECT_THAT(error.extensions, testing::ElementsAre("mine", "other"));
  EXPECT_EQ(error.kind, ErrorKind::internal);
  EXPECT_EQ(error.message(), "training step: it cheats");
  answer["extensions"] = "mine";
  EXPECT_THAT(error_from_json(answer).extensions, testing::IsEmpty());
}

TEST(ErrorJson, SaysWhyItNamesExtensions) {
  Error error{ErrorKind::internal, "it cheats", "training step", ""};
  error.extensions = {"mine"};
  EXPECT_FALSE(to_json(error).contains("extension_fault"));
  for (const ExtensionFault fault :
       {ExtensionFault::failed, ExtensionFault::suspected, ExtensionFault::trained_otherwise}) {
    error.extension_fault = fault;
    EXPECT_EQ(error_from_json(to_json(error)).extension_fault, fault) << to_string(fault);
  }
  EXPECT_EQ(error_from_json({{"extension_fault", "unheard of"}}).extension_fault,
            ExtensionFault::failed);
}

TEST(ErrorJson, OfWhatIsNoneIsInternal) {
  for (const Json& odd : {Json(), Json("no"), Json::array(), Json{{"kind", "unheard of"}}}) {
    const Error error = error_from_json(odd);
    EXPECT_EQ(error.kind, ErrorKind::internal) << odd;
    EXPECT_EQ(error.message(), "") << odd;
  }
}

}  // namespace
}  // namespace autotuned
