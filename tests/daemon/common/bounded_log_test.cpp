// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/bounded_log.hpp"

#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"

namespace autotuned::daemon {
namespace {

TEST(BoundedLog, KeepsTheNewest) {
  const TemporaryFolder folder;
  BoundedLog log(folder / "log", 10);
  log.append("0123456789");
  log.append("abc");
  EXPECT_EQ(folder.read("log"), "abc");
  EXPECT_EQ(folder.read("log.1"), "0123456789");
  log.append("defghijklmnopqrstuvwxyz");
  EXPECT_EQ(folder.read("log"), "uvwxyz");
  EXPECT_EQ(folder.read("log.1"), "klmnopqrst");
  BoundedLog again(folder / "log", 10);
  again.append("1234!");
  EXPECT_EQ(folder.read("log"), "!");
}

}  // namespace
}  // namespace autotuned::daemon
