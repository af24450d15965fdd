// SPDX-License-Identifier: Apache-2.0
#include "base/result.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>
#include <string>

namespace autotuned {
namespace {

using testing::HasSubstr;

constexpr std::array kEveryKind = {
    ErrorKind::invalid,       ErrorKind::not_found, ErrorKind::io,      ErrorKind::disk_full,
    ErrorKind::permission,    ErrorKind::busy,      ErrorKind::corrupt, ErrorKind::newer_version,
    ErrorKind::unsupported,   ErrorKind::timeout,   ErrorKind::crashed, ErrorKind::cancelled,
    ErrorKind::out_of_memory, ErrorKind::internal,
};

TEST(ErrorKind, EveryNameIsItsOwnAndReadsBack) {
  std::set<std::string_view> names;
  for (const ErrorKind kind : kEveryKind) {
    EXPECT_TRUE(names.insert(to_string(kind)).second) << to_string(kind);
    EXPECT_EQ(error_kind_from(to_string(kind)), kind);
  }
  EXPECT_EQ(to_string(ErrorKind::out_of_memory), "out_of_memory");
}

TEST(ErrorKind, UnknownNameIsInternal) {
  EXPECT_EQ(error_kind_from("on_fire"), ErrorKind::internal);
  EXPECT_EQ(error_kind_from(""), ErrorKind::internal);
  EXPECT_EQ(error_kind_from("Invalid"), ErrorKind::internal);
}

TEST(Error, MessageLeavesOutWhatIsEmpty) {
  EXPECT_EQ((Error{ErrorKind::io, "it broke", "a.yaml:3:1", "mend it"}).message(),
            "a.yaml:3:1: it broke; mend it");
  EXPECT_EQ((Error{ErrorKind::io, "it broke", "", ""}).message(), "it broke");
  EXPECT_EQ((Error{ErrorKind::io, "it broke", "", "mend it"}).message(), "it broke; mend it");
  EXPECT_EQ((Error{ErrorKind::io, "it broke", "here", ""}).message(), "here: it broke");
}

TEST(Error, FailMakesAnUnexpectedResult) {
  const Result<int> result = fail(ErrorKind::busy, "taken", "seat 3", "sit elsewhere");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, ErrorKind::busy);
  EXPECT_EQ(result.error().message(), "seat 3: taken; sit elsewhere");
}

TEST(Error, IsForwardedIntoAnyOtherResult) {
  const Result<int> failed = fail(ErrorKind::busy, "taken");
  const Result<std::string> other = forward_error(failed);
  const Result<void> nothing = forward_error(other);
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().kind, ErrorKind::busy);
  EXPECT_EQ(nothing.error().what, "taken");
}

TEST(SystemError, MapsTheNumberAndKeepsTheSystemsText) {
  const std::array<std::pair<int, ErrorKind>, 14> cases = {{{ENOENT, ErrorKind::not_found},
                                                            {ENOSPC, ErrorKind::disk_full},
                                                            {EDQUOT, ErrorKind::disk_full},
                                                            {EFBIG, ErrorKind::disk_full},
                                                            {EACCES, ErrorKind::permission},
                                                            {EROFS, ErrorKind::permission},
                                                            {EAGAIN, ErrorKind::busy},
                                                            {ENOMEM, ErrorKind::out_of_memory},
                                                            {ETIMEDOUT, ErrorKind::timeout},
                                                            {EPIPE, ErrorKind::crashed},
                                                            {EINTR, ErrorKind::cancelled},
                                                            {EISDIR, ErrorKind::invalid},
                                                            {ENOSYS, ErrorKind::unsupported},
                                                            {EIO, ErrorKind::io}}};
  for (const auto& [number, kind] : cases) {
    EXPECT_EQ(system_error(number, "x").kind, kind) << number;
  }
  const Error error = system_error(ENOSPC, "cannot write", "out/model.pt");
  EXPECT_EQ(error.where, "out/model.pt");
  EXPECT_THAT(error.what, HasSubstr("cannot write (No space left on device)"));
  EXPECT_FALSE(error.remedy.empty());
}

}  // namespace
}  // namespace autotuned
