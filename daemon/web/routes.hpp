// SPDX-License-Identifier: Apache-2.0
// The requests below the page's folder (docs/web.md lists them). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace autotuned::daemon {

// "page.html", "files/page.css".
struct FileQuery {
  std::string name;
};
struct StatusQuery {};
struct EventsQuery {
  std::int64_t job = 0;
};
struct CancelQuery {
  std::int64_t job = 0;
};

// Questions that are answered from the history, on a thread of its own. Names are those of find_named_run().
struct RunsQuery {};
struct RunQuery {
  std::string run;
};
struct CompareQuery {
  std::string a;
  std::string b;
};
// The page of the trace that a run recorded at its start or of what it kept.
struct ProfileQuery {
  std::string run;
  std::string which;  // "start" or "best"
};
using HistoryQuery = std::variant<RunsQuery, RunQuery, CompareQuery, ProfileQuery>;

using WebQuery = std::variant<FileQuery, StatusQuery, EventsQuery, CancelQuery, HistoryQuery>;

// `path` is the result of Gate::admit(), with its query behind "?". Nothing: there is no such page.
[[nodiscard]] std::optional<WebQuery> route(std::string_view method, std::string_view path);

}  // namespace autotuned::daemon
