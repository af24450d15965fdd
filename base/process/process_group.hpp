// SPDX-License-Identifier: Apache-2.0
// The processes of a group, as /proc lists them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>
#include <vector>

namespace autotuned {

// Returns the number that the name of a folder in /proc, or in its folder `task`, stands for; nothing for another name.
[[nodiscard]] std::optional<pid_t> process_number(std::string_view name);

// Returns the processes of a group, in the order of /proc. Reads the names of all processes of the machine, which takes some
// milliseconds. A process that has left the group does not count; one that has ended counts until its parent has waited for it.
[[nodiscard]] std::vector<pid_t> processes_of_group(pid_t group);

}  // namespace autotuned
