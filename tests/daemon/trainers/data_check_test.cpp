// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/data_check.hpp"

#include <gtest/gtest.h>

namespace autotuned::daemon {
namespace {

// The log of this trainer, which nobody can read, is not where anything happened.
TEST(DataCheck, SaysInPlainWordsWhyDataAndModelWereNotLookedAt) {
  const std::string begin = "data and model were not looked at: ";
  const auto told = [](ErrorKind kind, const char* what, const char* where, bool has_started) {
    return unlooked_text({.kind = kind, .what = what, .where = where}, has_started);
  };
  EXPECT_EQ(told(ErrorKind::timeout, "no answer to 'check' within 30.0 s", "/dev/null", true),
            begin + "they took longer than 30 s to open");
  EXPECT_EQ(told(ErrorKind::timeout, "the trainer did not say hello", "/dev/null", false),
            begin + "the trainer did not say hello");
  EXPECT_EQ(told(ErrorKind::crashed, "the trainer ended during 'check'", "/dev/null", true),
            begin + "the trainer ended during 'check'");
  EXPECT_EQ(told(ErrorKind::not_found, "cannot start the program", "/srv/trainer", false),
            begin + "/srv/trainer: cannot start the program");
}

}  // namespace
}  // namespace autotuned::daemon
