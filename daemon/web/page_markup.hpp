// SPDX-License-Identifier: Apache-2.0
// The page's files as they are served, and the page of one run as a single file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "daemon/web/web_message.hpp"

namespace autotuned::daemon {

// "page.html", "files/page.js", ...; nothing for another name.
[[nodiscard]] std::optional<WebAnswer> page_file(std::string_view name);

// The same page with `run` of run_page_json() in it: no network, no other file. Where scripts are switched off it shows `text`
// of run_page_text(). Nothing of the run can become markup or script.
[[nodiscard]] std::string page_of_run(const Json& run, std::string_view text);

// Joins modules into one, in this order, each without its imports and its `export`.
[[nodiscard]] std::string joined_modules(const std::vector<std::string_view>& modules);

}  // namespace autotuned::daemon
