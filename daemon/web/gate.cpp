// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/gate.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace autotuned::daemon {

namespace {

constexpr std::string_view kCookieName = "autotuned";
constexpr std::size_t kLongestTarget = 2048;

std::string random_digits() {
  std::array<unsigned char, 16> bytes{};
  // getrandom() returns so few bytes at once, after the system has started.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

// Takes as long wherever they differ; the length is no secret.
bool is_same_secret(std::string_view given, std::string_view secret) {
  if (given.size() != secret.size()) return false;
  volatile unsigned difference = 0;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    difference = difference | (static_cast<unsigned char>(given[i]) ^
                               static_cast<unsigned>(static_cast<unsigned char>(secret[i])));
  }
  return difference == 0;
}

// The value of NAME=value in a list with `separator` between; empty: there is none.
std::string_view value_in(std::string_view list, std::string_view name, char separator) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(separator), list.size());
    std::string_view item = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    while (item.starts_with(' '))
      item.remove_prefix(1);
    if (item.size() > name.size() && item.starts_with(name) && item[name.size()] == '=') {
      return item.substr(name.size() + 1);
    }
  }
  return {};
}

WebAnswer refuse(unsigned status, std::string text) {
  return {.status = status, .body = std::move(text) + "\n", .headers = {}};
}

}  // namespace

WebSecrets make_web_secrets() {
  return {.token = random_digits(), .folder = random_digits(), .cookie = random_digits()};
}

Gate::Gate(std::uint16_t port, WebSecrets secrets, bool may_control)
    : port_(port), secrets_(std::move(secrets)), may_control_(may_control) {}

std::string Gate::address() const {
  return "http://127.0.0.1:" + std::to_string(port_) + "/?token=" + secrets_.token;
}

// A foreign page can reach us through a host name of its own that resolves to 127.0.0.1; the browser sends that name.
bool Gate::is_our_host(const std::string& host) const {
  const std::string port = ":" + std::to_string(port_);
  for (const char* const name : {"127.0.0.1", "localhost", "[::1]"}) {
    if (host == name + port) return true;
  }
  return false;
}

WebAnswer Gate::enter(const std::string& query) const {
  if (!is_same_secret(value_in(query, "token", '&'), secrets_.token)) {
    return refuse(403, "This page needs its address with the token: `autotuned status` prints it.");
  }
  WebAnswer answer = refuse(303, "The page is at its place.");
  answer.headers = {{"Location", "/" + secrets_.folder + "/"},
                    {"Set-Cookie", std::string(kCookieName) + "=" + secrets_.cookie + "; Path=/" +
                                       secrets_.folder + "/; HttpOnly; SameSite=Strict"}};
  return answer;
}

std::variant<std::string, WebAnswer> Gate::admit(const WebRequest& request) const {
  if (!is_our_host(request.host)) {
    return refuse(403,
                  "This name does not belong to the page: use 127.0.0.1 or localhost, with the "
                  "port of the daemon.");
  }
  // Browsers say where a request comes from. Another port of this machine is "same-site", not "same-origin".
  if (!request.fetch_site.empty() && request.fetch_site != "none" &&
      request.fetch_site != "same-origin") {
    return refuse(403, "This request comes from another page: open the address directly.");
  }
  const bool is_post = request.method == "POST";
  if (!is_post && request.method != "GET") {
    WebAnswer answer = refuse(405, "Only GET and POST are understood.");
    answer.headers = {{"Allow", "GET, POST"}};
    return answer;
  }
  if (request.target.size() > kLongestTarget) return refuse(414, "The address is too long.");
  const std::size_t mark = std::min(request.target.find('?'), request.target.size());
  const std::string path = request.target.substr(0, mark);
  const std::string query = mark < request.target.size() ? request.target.substr(mark + 1) : "";
  if (path == "/" && !is_post) return enter(query);

  const std::string folder = "/" + secrets_.folder + "/";
  if (!is_same_secret(std::string_view(path).substr(0, folder.size()), folder) ||
      !is_same_secret(value_in(request.cookie, kCookieName, ';'), secrets_.cookie)) {
    return refuse(403, "This page needs its address with the token: `autotuned status` prints it.");
  }
  if (is_post) {
    if (!may_control_) {
      return error_web_answer({ErrorKind::permission, "this page may only look", "the daemon",
                               "start it with --web-control to cancel runs here"});
    }
    if (request.origin != "http://" + request.host) {
      return error_web_answer({ErrorKind::permission,
                               "the request does not come from the page itself", "the daemon",
                               "open the page by its address"});
    }
  }
  return request.target.substr(folder.size());
}

}  // namespace autotuned::daemon
