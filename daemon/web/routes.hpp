// SPDX-License-Identifier: Apache-2.0
// What can be asked for below the page's folder. Pure; docs/web.md lists it.
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

// What the history answers, on a thread of its own. A name is that of find_named_run().
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

// `path` is what Gate::admit() lets through, with its query behind "?". Nothing: there is no such thing.
[[nodiscard]] std::optional<WebQuery> route(std::string_view method, std::string_view path);

}  // namespace autotuned::daemon
