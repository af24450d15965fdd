// SPDX-License-Identifier: Apache-2.0
#include "daemon/scripts/agent_client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error_json.hpp"

namespace autotuned::daemon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kProtocol = 1;

// Until one of them has something to say, or `limit_ms` have passed; -1: no limit.
void wait_for_either(int agent, int cancel, int limit_ms) {
  std::array<pollfd, 2> polled{{{agent, POLLIN, 0}, {cancel, POLLIN, 0}}};
  (void)::poll(polled.data(), cancel >= 0 ? 2 : 1, limit_ms);
}

// Rounded up, so that the time is over after it.
int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

// Unlike FrameChannel::send(), it leaves the channel readable if the agent is gone: the agent may have sent the reason.
void send_to(int agent, std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t count = ::send(agent, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

tl::unexpected<Error> AgentClient::end_with(AgentEnd end) {
  if (!end_) end_ = std::move(end);
  return fail(ErrorKind::cancelled, end_->text.empty() ? "the script has ended" : end_->text);
}

// The next frame that is no end.
Result<Json> AgentClient::receive(Patience patience) {
  if (end_) return end_with(*end_);
  const Clock::time_point end = Clock::now() + patience.time;
  for (;;) {
    // Read what the agent sent before its end, even if the script has ended by now.
    auto frame = channel_.receive(std::chrono::nanoseconds(0));
    if (!frame && frame.error().kind == ErrorKind::timeout) {
      if (cancel_->is_requested())
        return end_with({.kind = AgentEnd::Kind::script_ended, .text = ""});
      if (patience.on_end && Clock::now() >= end) std::exchange(patience.on_end, {})();
      wait_for_either(channel_.descriptor(), cancel_->descriptor(),
                      patience.on_end ? milliseconds_until(end) : -1);
      continue;
    }
    if (!frame && frame.error().kind == ErrorKind::crashed) {
      return end_with({.kind = AgentEnd::Kind::closed, .text = ""});
    }
    if (!frame) {
      return end_with(
          {.kind = AgentEnd::Kind::closed,
           .text = "the agent in the script sent no frame of JSON: " + frame.error().what});
    }
    if (const Json& ended = member(*frame, "end"); ended.is_object()) {
      const bool has_steps = get_bool(ended, "steps_known").value_or(false);
      return end_with({.kind = AgentEnd::Kind::script_ended,
                       .text = has_steps ? "" : get_string(ended, "why").value_or(""),
                       .has_steps = has_steps,
                       .steps = get_integer(ended, "steps").value_or(0)});
    }
    if (const Json& detached = member(*frame, "detached"); detached.is_object()) {
      return end_with(
          {.kind = AgentEnd::Kind::detached,
           .text = "the agent in the script let go: " + error_from_json(detached).message()});
    }
    return frame;
  }
}

Result<Json> AgentClient::receive_hello() {
  auto frame = receive();
  if (!frame) return frame;
  const Json& hello = member(*frame, "hello");
  const auto protocol = get_integer(hello, "protocol");
  const bool owns_loop = get_bool(hello, "owns_loop").value_or(true);
  if (protocol && *protocol == kProtocol && !owns_loop) return hello;
  return fail(ErrorKind::unsupported,
              "the agent in the script does not speak protocol " + std::to_string(kProtocol), "",
              "use the Python package that was installed with this program");
}

Result<Json> AgentClient::request(const std::string& name, Json fields, Patience patience) {
  if (end_) return end_with(*end_);
  const std::int64_t id = next_id_++;
  fields["id"] = id;
  fields["request"] = name;
  send_to(channel_.descriptor(), encode_frame(to_line(fields)));
  auto frame = receive(std::move(patience));
  if (!frame) return frame;
  if (get_integer(*frame, "id").value_or(-1) != id) {
    return end_with({.kind = AgentEnd::Kind::closed,
                     .text = "the agent in the script answered a question that was not asked"});
  }
  if (const Json& ok = member(*frame, "ok"); ok.is_object()) return ok;
  const Json& error = member(*frame, "error");
  if (!error.is_object()) {
    return end_with(
        {.kind = AgentEnd::Kind::closed,
         .text = "the answer of the script's agent to '" + name + "' has no 'ok' or 'error'"});
  }
  Error told = error_from_json(error);
  // A cancel by us would be known, so this one is an internal error.
  if (told.kind == ErrorKind::cancelled) told.kind = ErrorKind::internal;
  return tl::unexpected(std::move(told));
}

const AgentEnd& AgentClient::wait_for_end() {
  while (!end_)
    (void)receive();
  return *end_;
}

}  // namespace autotuned::daemon
