// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/session_process.hpp"

#include <utility>

#include "daemon/common/session_request.hpp"
#include "daemon/session/running_session.hpp"
#include "daemon/session/script_session.hpp"
#include "daemon/session/session_control.hpp"

namespace autotuned::daemon {

int run_session_process(int control_descriptor) {
  SessionControl control{Descriptor(control_descriptor)};
  auto frame = control.receive_request();
  if (!frame) return 1;
  auto request = SessionRequest::from_json(*frame);
  if (!request) {
    control.report({{"event", "error"}, {"kind", "internal"}, {"text", request.error().message()}});
    control.report({{"event", "result"}, {"exit_code", 1}});
    return 0;
  }
  if (request->script) {
    run_script_session(*request, control, Descriptor(kAgentDescriptor));
    return 0;
  }
  RunningSession session(std::move(*request), control);
  static_cast<void>(session.run());
  return 0;
}

}  // namespace autotuned::daemon
