// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <iostream>
#include <vector>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/run_screen.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/queue/client.hpp"
#include "daemon/queue/server.hpp"
#include "daemon/queue/socket.hpp"
#include "daemon/queue/store.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/slurm/slurm.hpp"
#include "daemon/web/web_server.hpp"

namespace autotuned::daemon {

namespace {

// A daemon promises to end within five seconds.
constexpr std::chrono::nanoseconds kStopLimit = std::chrono::seconds(10);

// A run that is not there is a mistake in the command line; a daemon that is not there is none.
int report_refusal(const Error& error) {
  const bool is_mistake = error.kind == ErrorKind::invalid ||
                          (error.kind == ErrorKind::not_found && !error.where.empty());
  return report_error(error, is_mistake ? kUsageError : kEnvironmentUnusable);
}

// Sends one request to the daemon and returns the answer.
Result<Json> ask_daemon(Json request) {
  auto client = connect_or_explain();
  if (!client) return tl::unexpected(client.error());
  return client->ask(std::move(request));
}

std::string text_of(const Json& object, const char* field) {
  return get_string(object, field).value_or("");
}

std::int64_t number_of(const Json& object, const char* field) {
  return get_integer(object, field).value_or(0);
}

std::string trials_text(const Json& trials) {
  std::string text;
  if (!trials.is_object()) return text;
  for (const auto& [verdict, count] : trials.items())
    text += (text.empty() ? "" : ", ") + count.dump() + " " + verdict;
  return text;
}

Result<std::uint16_t> port_from(const std::string& text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  if (error == std::errc() && rest == end) return port;
  return fail(ErrorKind::invalid, "'" + short_for_message(text) + "' is no port", "--web",
              "give a number up to 65535, or none for a free one");
}

// Says where the page is, to a person alone: the address is a secret, and a log may be read by others.
MakeQueueView announced(const MakeQueueView& make) {
  return [make](boost::asio::io_context& context, QueueAccess& queue) {
    auto view = make(context, queue);
    if (!view) return view;
    std::cerr << "page     "
              << (::isatty(STDERR_FILENO) == 1 ? (*view)->address()
                                               : "'autotuned status' prints its address")
              << std::endl;
    return view;
  };
}

void print_status(const Json& status) {
  const Json& memory = member(status, "memory");
  std::cout << fmt::format(
      "daemon   process {}, {} resident, {} running, {} waiting\n", number_of(status, "process"),
      format_bytes(number_of(memory, "daemon_bytes")),
      number_of(member(status, "queue"), "running"), number_of(member(status, "queue"), "queued"));
  if (const std::string page = text_of(status, "page"); !page.empty()) {
    std::cout << "page     " << page << "\n";
  }
  std::vector<std::vector<std::string>> rows = {
      {"id", "state", "recipe", "device", "run", "trials", "restarts", "memory"}};
  for (const Json& job : member(status, "jobs")) {
    const std::string id = std::to_string(number_of(job, "id"));
    const std::int64_t bytes = number_of(member(memory, "runs"), id.c_str());
    const bool is_saved = get_bool(job, "saved").value_or(true);
    rows.push_back({id, text_of(job, "state") + (is_saved ? "" : ", not on disk yet"),
                    text_of(job, "recipe"), text_of(job, "device"), text_of(job, "run"),
                    trials_text(member(job, "trials")), std::to_string(number_of(job, "restarts")),
                    bytes > 0 ? format_bytes(bytes) : ""});
  }
  if (rows.size() > 1) std::cout << "\n" << table_text(rows);
  if (const std::int64_t left_out = number_of(status, "jobs_left_out"); left_out > 0) {
    std::cout << left_out << " more do not fit here\n";
  }
}

// The exit code of a command that has only watched.
int followed_code(const Result<Followed>& followed, std::int64_t job) {
  // As in run: it was there, and the run did not come to its end.
  if (!followed && followed.error().kind == ErrorKind::crashed) {
    return report_error(followed.error());
  }
  if (!followed) return report_refusal(followed.error());
  if (!followed->has_left) return followed->exit_code;
  std::cerr << "\nleft; the run goes on: 'autotuned attach " << job << "' follows it again\n";
  return kDone;
}

}  // namespace

int serve(const ServeOptions& options) {
  MakeQueueView page;
  if (options.web) {
    const auto port = port_from(*options.web);
    if (!port) return report_error(port.error(), kUsageError);
    page = announced(
        web_page({.port = *port, .may_control = options.web_control, .history = options.history}));
  }
  const auto socket = socket_file();
  if (!socket) return report_refusal(socket.error());
  const auto served = serve(*socket, default_store_folder(), DaemonLimits{}, page);
  if (served) return kDone;
  // Nothing is wrong with the place: a service manager may try again.
  const ErrorKind kind = served.error().kind;
  const bool may_pass =
      kind == ErrorKind::io || kind == ErrorKind::disk_full || kind == ErrorKind::out_of_memory;
  return may_pass ? report_error(served.error()) : report_refusal(served.error());
}

int status(const std::string& id, bool as_json) {
  if (is_slurm_name(id)) return slurm_status(id, as_json);
  if (!id.empty()) {
    return usage_error(
        "status of '" + short_for_message(id) +
        "': without a name it shows the daemon, with slurm or slurm:N jobs of Slurm; "
        "`autotuned show` is for runs");
  }
  const auto answer = ask_daemon({{"request", "status"}});
  if (!answer) return report_refusal(answer.error());
  if (as_json) {
    std::cout << to_line(*answer) << "\n";
  } else {
    print_status(*answer);
  }
  return kDone;
}

int attach(const std::string& id, bool as_json, const ScreenOptions& options) {
  if (is_slurm_name(id)) {
    return usage_error(id +
                       ": a job of Slurm writes its progress into its log, beside its script; "
                       "`tail -f` follows it");
  }
  auto client = connect_or_explain();
  if (!client) return report_refusal(client.error());
  // The number of a job stays the same if the daemon is restarted.
  const auto found = client->ask({{"request", "find"}, {"job", id}});
  if (!found) return report_refusal(found.error());
  const std::int64_t job = number_of(*found, "job");
  if (as_json) {
    const auto print = [](const Json& event) { std::cout << to_line(event) << std::endl; };
    return followed_code(follow(*std::move(client), job, OnInterrupt::leave, print), job);
  }
  RunScreen screen(options, RunScreen::Viewer::watcher);
  const auto followed = follow(
      *std::move(client), job, OnInterrupt::leave,
      [&screen](const Json& event) { screen.show(event); }, [&screen] { screen.tick(); });
  if (!followed || followed->has_left) {
    screen.finish();
    return followed_code(followed, job);
  }
  return screen.conclude(followed->exit_code, false, false);
}

int cancel(const std::string& id, bool as_json) {
  if (is_slurm_name(id)) return slurm_cancel(id, as_json);
  const auto answer = ask_daemon({{"request", "cancel"}, {"job", id}});
  if (!answer) return report_refusal(answer.error());
  if (as_json) {
    std::cout << to_line(*answer) << "\n";
  } else {
    std::cout << "run " << number_of(*answer, "job") << " of the queue is cancelled\n";
  }
  return kDone;
}

int stop(bool as_json) {
  auto client = connect_or_explain();
  if (!client) return report_refusal(client.error());
  const auto answer = client->ask({{"request", "stop"}});
  if (!answer) return report_refusal(answer.error());
  // The daemon sends nothing more; it closes the connection when it ends.
  for (;;) {
    const auto frame = client->channel().receive(kStopLimit);
    if (frame) continue;
    if (frame.error().kind != ErrorKind::timeout) break;
    return report_error(
        {ErrorKind::timeout, "it has not ended within " + format_duration(kStopLimit), "the daemon",
         "it was told to stop: look with 'autotuned status' whether it still serves"});
  }
  if (as_json) std::cout << to_line(*answer) << "\n";
  return kDone;
}

}  // namespace autotuned::daemon
