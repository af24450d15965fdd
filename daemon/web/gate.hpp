// SPDX-License-Identifier: Apache-2.0
// Who may see the page and who may act through it. Pure: a request in, a decision out.
//
// The address that the user opens holds a token. It is answered once with a cookie and the way to a folder whose name is a
// secret too: browsers send a cookie of 127.0.0.1 to servers of other users on other ports of it, but only for paths below the
// one that it was set for.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "daemon/web/web_message.hpp"

namespace autotuned::daemon {

// The secrets of one server: each is 128 bits as 32 hexadecimal digits.
struct WebSecrets {
  std::string token;   // in the address
  std::string folder;  // "/FOLDER/" is where the page lies
  std::string cookie;
};

// Draws new secrets from the system's random generator.
[[nodiscard]] WebSecrets make_web_secrets();

class Gate {
 public:
  Gate(std::uint16_t port, WebSecrets secrets, bool may_control);

  // What the request asks for: its path below the folder, such as "api/status" or "", or an answer that it gets instead.
  [[nodiscard]] std::variant<std::string, WebAnswer> admit(const WebRequest& request) const;

  // The address for the user, with the token.
  [[nodiscard]] std::string address() const;
  [[nodiscard]] bool may_control() const { return may_control_; }

 private:
  [[nodiscard]] bool is_our_host(const std::string& host) const;
  [[nodiscard]] WebAnswer enter(const std::string& query) const;

  std::uint16_t port_;
  WebSecrets secrets_;
  bool may_control_;
};

}  // namespace autotuned::daemon
