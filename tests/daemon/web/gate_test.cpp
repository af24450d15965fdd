// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/gate.hpp"

#include <gmock/gmock.h>

#include <optional>
#include <string>

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

const WebSecrets kSecrets{
    .token = std::string(32, 'a'), .folder = std::string(32, 'b'), .cookie = std::string(32, 'c')};

Gate gate(bool may_control = false) {
  return {8080, kSecrets, may_control};
}

std::string below(const std::string& path) {
  return "/" + kSecrets.folder + "/" + path;
}

// As the page itself asks.
WebRequest asked(const std::string& target, const std::string& method = "GET") {
  return {.method = method,
          .target = target,
          .host = "127.0.0.1:8080",
          .origin = method == "POST" ? "http://127.0.0.1:8080" : "",
          .fetch_site = "same-origin",
          .cookie = "autotuned=" + kSecrets.cookie,
          .last_event_id = ""};
}

// The status of the refusal; 0: it is let in.
unsigned refusal(const Gate& door, const WebRequest& request) {
  const auto decision = door.admit(request);
  const auto* const answer = std::get_if<WebAnswer>(&decision);
  return answer == nullptr ? 0 : answer->status;
}

TEST(Gate, LetsThePageInWithItsCookie) {
  const auto decision = gate().admit(asked(below("api/status?x=1")));
  ASSERT_TRUE(std::holds_alternative<std::string>(decision));
  EXPECT_EQ(std::get<std::string>(decision), "api/status?x=1");
  EXPECT_EQ(std::get<std::string>(gate().admit(asked(below("")))), "");
}

TEST(Gate, TurnsTheTokenIntoACookieAndAPlace) {
  WebRequest request = asked("/?token=" + kSecrets.token);
  request.cookie = "";
  request.fetch_site = "none";
  const auto decision = gate().admit(request);
  const auto* const answer = std::get_if<WebAnswer>(&decision);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->status, 303U);
  ASSERT_EQ(answer->headers.size(), 2U);
  EXPECT_EQ(answer->headers[0], std::pair(std::string("Location"), below("")));
  EXPECT_EQ(answer->headers[1].second,
            "autotuned=" + kSecrets.cookie + "; Path=" + below("") + "; HttpOnly; SameSite=Strict");
  EXPECT_EQ(gate().address(), "http://127.0.0.1:8080/?token=" + kSecrets.token);
}

TEST(Gate, RefusesAnotherToken) {
  for (const std::string& target :
       {"/?token=" + std::string(32, 'x'), "/?token=" + kSecrets.token.substr(1),
        "/?token=" + kSecrets.token + "a", "/?nottoken=" + kSecrets.token, std::string("/?token="),
        std::string("/?token"), std::string("/")}) {
    EXPECT_EQ(refusal(gate(), asked(target)), 403U) << target;
  }
  EXPECT_EQ(refusal(gate(), asked("/?a=b&token=" + kSecrets.token)), 303U);
}

TEST(Gate, RefusesWithoutTheCookieOrThePlace) {
  for (const std::string& cookie :
       {std::string(), "autotuned=" + std::string(32, 'x'), "other=" + kSecrets.cookie,
        "autotuned=" + kSecrets.cookie + "0", "autotuned=" + kSecrets.token}) {
    WebRequest request = asked(below("api/status"));
    request.cookie = cookie;
    EXPECT_EQ(refusal(gate(), request), 403U) << cookie;
  }
  for (const std::string& target :
       {std::string("/api/status"), "/" + std::string(32, 'x') + "/api/status",
        "/" + kSecrets.folder, "/" + kSecrets.token + "/", std::string(), std::string("*"),
        std::string("http://127.0.0.1:8080/")}) {
    EXPECT_EQ(refusal(gate(), asked(target)), 403U) << target;
  }
  WebRequest among_others = asked(below(""));
  among_others.cookie = "a=b; autotuned=" + kSecrets.cookie + "; c=d";
  EXPECT_EQ(refusal(gate(), among_others), 0U);
}

// A name of elsewhere that leads to this machine (DNS rebinding), and another port.
TEST(Gate, RefusesOtherNames) {
  for (const char* const host : {"", "example.org", "example.org:8080", "127.0.0.1", "127.0.0.1:80",
                                 "localhost", "127.0.0.1:8080.example.org", "0.0.0.0:8080"}) {
    WebRequest request = asked(below(""));
    request.host = host;
    EXPECT_EQ(refusal(gate(), request), 403U) << host;
  }
  for (const char* const host : {"127.0.0.1:8080", "localhost:8080", "[::1]:8080"}) {
    WebRequest request = asked(below(""));
    request.host = host;
    EXPECT_EQ(refusal(gate(), request), 0U) << host;
  }
}

TEST(Gate, RefusesWhatOtherPagesAsk) {
  for (const char* const site : {"cross-site", "same-site", "several"}) {
    WebRequest request = asked(below("api/status"));
    request.fetch_site = site;
    EXPECT_EQ(refusal(gate(), request), 403U) << site;
  }
  WebRequest old_browser = asked(below("api/status"));
  old_browser.fetch_site = "";
  EXPECT_EQ(refusal(gate(), old_browser), 0U);
}

TEST(Gate, ActsOnlyWhereItMayAndForThePageItself) {
  const std::string cancel = below("api/jobs/1/cancel");
  EXPECT_EQ(refusal(gate(), asked(cancel, "POST")), 403U);
  EXPECT_EQ(refusal(gate(true), asked(cancel, "POST")), 0U);
  for (const char* const origin : {"", "null", "http://example.org", "http://127.0.0.1:8081",
                                   "https://127.0.0.1:8080", "http://localhost:8080"}) {
    WebRequest request = asked(cancel, "POST");
    request.origin = origin;
    EXPECT_EQ(refusal(gate(true), request), 403U) << origin;
  }
}

TEST(Gate, UnderstandsGetAndPostAlone) {
  for (const char* const method : {"HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "get", ""})
    EXPECT_EQ(refusal(gate(true), asked(below(""), method)), 405U) << method;
  EXPECT_EQ(refusal(gate(), asked(below(std::string(4096, 'x')))), 414U);
}

TEST(Gate, MakesSecretsThatDiffer) {
  const WebSecrets one = make_web_secrets();
  const WebSecrets other = make_web_secrets();
  EXPECT_EQ(one.token.size(), 32U);
  EXPECT_EQ(one.token.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one.token, one.folder);
  EXPECT_NE(one.token, one.cookie);
  EXPECT_NE(one.token, other.token);
  EXPECT_NE(one.cookie, other.cookie);
}

TEST(Gate, NoAnswerNamesASecret) {
  for (const WebRequest& request :
       {asked("/"), asked(below("x"), "PUT"), asked(below("x"), "POST")}) {
    const auto decision = gate().admit(request);
    const auto* const answer = std::get_if<WebAnswer>(&decision);
    ASSERT_NE(answer, nullptr);
    for (const std::string& secret : {kSecrets.token, kSecrets.folder, kSecrets.cookie})
      EXPECT_THAT(answer->body, testing::Not(HasSubstr(secret)));
  }
}

}  // namespace
}  // namespace autotuned::daemon
