// SPDX-License-Identifier: Apache-2.0
#include "daemon/agent_session.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <iostream>
#include <limits>
#include <string>
#include <utility>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/cli/script_screen.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/supervisor/agent_supervisor.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {
namespace {

struct AgentRequest {
  ScriptRequest script;
  Descriptor agent;
};

Result<AgentRequest> request_from(const std::string& text) {
  const auto line = parse_json(text, "the request for a session");
  if (!line) return forward_error(line);
  auto script = ScriptRequest::from_json(*line);
  if (!script) return forward_error(script);
  const auto number = get_integer(*line, "agent");
  if (!number) return forward_error(number);
  const bool is_number = *number > STDERR_FILENO && *number <= std::numeric_limits<int>::max();
  if (!is_number || ::fcntl(static_cast<int>(*number), F_SETFD, FD_CLOEXEC) != 0) {
    return fail(ErrorKind::invalid, "the socket to the agent was not handed down",
                "descriptor " + std::to_string(*number));
  }
  return AgentRequest{.script = *std::move(script), .agent = Descriptor(static_cast<int>(*number))};
}

}  // namespace

int run_agent_session() {
  std::string text;
  std::getline(std::cin, text);
  auto asked = request_from(text);
  if (!asked) return report_error(asked.error(), kUsageError);
  SessionRequest request;
  request.script = std::move(asked->script);
  request.history = storage::History::default_path();
  const ScriptScreen screen(request.script->name);
  // Anything after the line, also the end of the stream, ends the session. It is not read.
  const auto done = supervise_agent(std::move(request), std::move(asked->agent),
                                    Descriptor(::dup(STDIN_FILENO)), [&screen](const Json& event) {
                                      screen.show(event);
                                      const std::string name =
                                          get_string(event, "event").value_or("");
                                      if (name == "run" || name == "tuned" || name == "untuned") {
                                        std::cout << to_line(event) << "\n" << std::flush;
                                      }
                                    });
  return done ? kDone : report_error(done.error());
}

}  // namespace autotuned::daemon
