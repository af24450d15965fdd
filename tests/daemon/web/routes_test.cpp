// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/routes.hpp"

#include <gtest/gtest.h>

#include <string>

namespace autotuned::daemon {
namespace {

template <class T>
T routed(std::string_view method, std::string_view path) {
  const auto query = route(method, path);
  if (!query || !std::holds_alternative<T>(*query)) {
    ADD_FAILURE() << path << " leads elsewhere";
    return {};
  }
  return std::get<T>(*query);
}

template <class T>
T of_history(std::string_view path) {
  const HistoryQuery query = routed<HistoryQuery>("GET", path);
  if (!std::holds_alternative<T>(query)) {
    ADD_FAILURE() << path << " asks for something else";
    return {};
  }
  return std::get<T>(query);
}

TEST(Routes, LeadToWhatThePageAsks) {
  EXPECT_EQ(routed<FileQuery>("GET", "").name, "page.html");
  EXPECT_EQ(routed<FileQuery>("GET", "?x").name, "page.html");
  EXPECT_EQ(routed<FileQuery>("GET", "files/page.css").name, "files/page.css");
  routed<StatusQuery>("GET", "api/status");
  EXPECT_EQ(routed<EventsQuery>("GET", "api/jobs/7/events").job, 7);
  EXPECT_EQ(routed<CancelQuery>("POST", "api/jobs/7/cancel").job, 7);
  of_history<RunsQuery>("api/runs");
  EXPECT_EQ(of_history<RunQuery>("api/runs/r-20261121-7f3a9c").run, "r-20261121-7f3a9c");
  const auto compared = of_history<CompareQuery>("api/compare/r-1/r-2.3");
  EXPECT_EQ(compared.a, "r-1");
  EXPECT_EQ(compared.b, "r-2.3");
  const auto profile = of_history<ProfileQuery>("profile/r-1/best");
  EXPECT_EQ(profile.run, "r-1");
  EXPECT_EQ(profile.which, "best");
}

TEST(Routes, LeadNowhereElse) {
  for (const char* const path : {"api",
                                 "api/",
                                 "api/runs/",
                                 "api/runs/..",
                                 "api/runs/a%2fb",
                                 "api/runs/a b",
                                 "api/runs/r/x",
                                 "api/compare/a",
                                 "api/compare//b",
                                 "api/jobs/0/events",
                                 "api/jobs/-1/events",
                                 "api/jobs/1x/events",
                                 "api/jobs/99999999999999999999/events",
                                 "api/jobs/1/cancel",
                                 "profile/r-1/other",
                                 "profile/../start",
                                 "files",
                                 "a/b/c/d/e/f/g/h",
                                 "//",
                                 "api/status/"})
    EXPECT_FALSE(route("GET", path)) << path;
  const std::string long_name = "api/runs/" + std::string(65, 'r');
  EXPECT_FALSE(route("GET", long_name));
  EXPECT_FALSE(route("POST", "api/jobs/1/events"));
  EXPECT_FALSE(route("POST", "api/status"));
  EXPECT_FALSE(route("POST", ""));
}

}  // namespace
}  // namespace autotuned::daemon
