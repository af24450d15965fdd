// SPDX-License-Identifier: Apache-2.0
// The protocol between clients and the daemon (docs/daemon.md), in frames (base/frame.hpp). Pure: bytes in, requests
// out. Nothing that a client sends is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/queue/queue.hpp"

namespace autotuned::daemon {

inline constexpr std::int64_t kDaemonProtocol = 1;
// The largest recipe, 1 MiB, fits.
inline constexpr std::size_t kMaxRequestBytes = std::size_t{4} << 20U;
inline constexpr int kMaxRequestDepth = 64;

// Cuts what arrives into frames.
class FrameDecoder {
 public:
  void feed(std::string_view bytes) { received_.append(bytes); }
  // The next whole frame; null while there is none. ErrorKind::invalid: too long, too deep or no JSON;
  // nothing can be read after that.
  [[nodiscard]] Result<Json> next();
  // Whether part of a frame has arrived.
  [[nodiscard]] bool is_partial() const { return !received_.empty(); }
  // The bytes of frames that were not taken yet.
  [[nodiscard]] std::size_t held_bytes() const { return received_.size(); }

 private:
  std::string received_;
};

// Everything that a run needs, without its state in the queue.
struct Submission {
  std::string token;
  std::string folder;  // absolute: where the user was
  std::string device;  // device_of() the recipe
  SessionRequest session;
  std::vector<std::string> environment;  // NAME=value, of variables in submitted_variables()

  [[nodiscard]] Json to_json() const;
  // ErrorKind::invalid names the field.
  [[nodiscard]] static Result<Submission> from_json(const Json& value);
};

struct SubmitRequest {
  Submission submission;
};
struct AttachRequest {
  std::string job;
  std::int64_t skip = 0;  // events that the client has seen
};
struct CancelRequest {
  std::string job;
};
struct FindRequest {
  std::string job;
};
struct StatusRequest {};
struct StopRequest {};
using DaemonRequest = std::variant<SubmitRequest, AttachRequest, CancelRequest, FindRequest,
                                   StatusRequest, StopRequest>;

// ErrorKind::newer_version for another protocol, invalid for anything else that is wrong.
[[nodiscard]] Result<DaemonRequest> read_request(const Json& frame);

// {"protocol": 1, "error": {...}}; base/error_json.hpp reads the error.
[[nodiscard]] Json error_answer(const Error& error);

}  // namespace autotuned::daemon
