// SPDX-License-Identifier: Apache-2.0
// The command line: what a person may type, parsed and handed to one function per command.
#pragma once

namespace autotuned::daemon {

// Parses and runs one command. Returns one of daemon/common/exit_codes.hpp.
[[nodiscard]] int run_command(int argc, char** argv);

}  // namespace autotuned::daemon
