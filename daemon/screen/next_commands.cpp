// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/next_commands.hpp"

#include <fmt/format.h>

namespace autotuned::daemon {

std::string next_commands(const Json& result) {
  const std::string run = get_string(result, "run").value_or("");
  std::string text = fmt::format("autotuned explain {0}, autotuned show {0}", run);
  const bool is_finished = get_string(result, "state").value_or("") == "finished";
  const std::string stored = get_string(member(result, "training"), "stored_as").value_or("");
  if (is_finished && (stored == "picture_file" || stored == "uint8")) {
    text += fmt::format("\nautotuned predict {} PICTURE.png", run);
  }
  return text;
}

}  // namespace autotuned::daemon
