// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/next_commands.hpp"

#include <gtest/gtest.h>

namespace autotuned::daemon {
namespace {

TEST(NextCommands, NameTheModelThatTakesPictures) {
  const std::string story = "autotuned explain r-1, autotuned show r-1";
  Json result = {{"run", "r-1"}, {"state", "finished"}, {"training", {{"steps", 3}}}};
  EXPECT_EQ(next_commands(result), story) << "of an older version";
  for (const char* const stored : {"picture_file", "uint8"}) {
    result["training"]["stored_as"] = stored;
    EXPECT_EQ(next_commands(result), story + "\nautotuned predict r-1 PICTURE.png");
  }
  for (const char* const stored : {"float32", "token"}) {
    result["training"]["stored_as"] = stored;
    EXPECT_EQ(next_commands(result), story);
  }
  result["training"]["stored_as"] = "uint8";
  result["state"] = "cancelled";
  EXPECT_EQ(next_commands(result), story);
}

}  // namespace
}  // namespace autotuned::daemon
