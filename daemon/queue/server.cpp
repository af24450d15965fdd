// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/server.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "base/process/process.hpp"
#include "base/process/resident_memory.hpp"
#include "base/utf8.hpp"
#include "daemon/common/orphans.hpp"
#include "daemon/common/stop_requests.hpp"
#include "daemon/queue/connection.hpp"
#include "daemon/queue/log.hpp"
#include "daemon/queue/queue_runner.hpp"
#include "daemon/queue/socket.hpp"
#include "daemon/queue/store.hpp"

namespace autotuned::daemon {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::local::stream_protocol;

// Without descriptors to accept with, until some are free again.
constexpr std::chrono::seconds kAcceptAgain{1};
// After the grace, for killed sessions to be reaped.
constexpr std::chrono::milliseconds kReapLimit{500};

// The most bytes of jobs in one answer: far below the limit of a frame, because many clients may ask at once.
constexpr std::size_t kStatusBytes = std::size_t{1} << 20U;

Json ok_answer(Json ok) {
  return {{"protocol", kDaemonProtocol}, {"ok", std::move(ok)}};
}

class Server : private QueueAccess {
 public:
  Server(Listener listener, JobStore store, const DaemonLimits& limits)
      : limits_(limits),
        listener_(std::move(listener)),
        acceptor_(context_, Protocol(), listener_.take_descriptor().release()),
        signals_(context_, SIGTERM),
        accept_timer_(context_),
        stop_timer_(context_),
        received_{.most = limits.received_bytes},
        store_folder_(store.folder().string()),
        jobs_(context_, std::move(store), limits.jobs,
              [this](std::int64_t job) { advance_watchers(job); }) {
    for (const int signal : {SIGINT, SIGHUP}) {
      if (!is_ignored(signal)) signals_.add(signal);
    }
  }

  Result<void> run(const MakeQueueView& make_view) {
    if (make_view) {
      auto view = make_view(context_, *this);
      if (!view) return tl::unexpected(view.error());
      view_ = *std::move(view);
    }
    if (auto recovered = jobs_.recover(); !recovered) return recovered;
    jobs_.schedule();
    accept();
    wait_for_signal();
    notify_manager("READY=1\nSTATUS=Serving");
    context_.run();
    jobs_.leave_sessions();
    // The socket goes before those who wait for it see their connection end.
    listener_.close();
    return {};
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const error_code& error, Protocol::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        log_line(LogLevel::error, "accept_failed", {{"error", error.message()}});
        accept_timer_.expires_after(kAcceptAgain);
        accept_timer_.async_wait([this](const error_code& cancelled) {
          if (!cancelled) accept();
        });
        return;
      }
      take(std::move(socket));
      accept();
    });
  }

  void take(Protocol::socket socket) {
    const auto user = peer_user(socket.native_handle());
    if (user != ::getuid()) {
      ++refused_;
      log_line(LogLevel::warning, "peer_refused",
               {{"user", user ? std::to_string(*user) : "unknown"}});
      return;  // closes it
    }
    auto connection = std::make_shared<Connection>(
        std::move(socket), limits_.connection, received_,
        [this](Connection& from, const Result<Json>& frame) { take_request(from, frame); },
        [this](Connection& closed, const std::string& reason) { forget(closed, reason); });
    if (connections_.size() >= limits_.connections) {
      ++refused_;
      // The client is told why, if its buffer has space, and the connection is closed.
      connection->refuse({ErrorKind::busy, "too many programs talk to the daemon", "the daemon",
                          "end some that follow runs"});
      return;
    }
    ++accepted_;
    connections_.insert(connection);
    connection->start();
  }

  void forget(Connection& closed, const std::string& reason) {
    if (reason != "gone") {
      ++dropped_;
      log_line(LogLevel::warning, "connection_dropped", {{"reason", reason}});
    }
    connections_.erase(closed.shared_from_this());
  }

  void take_request(Connection& from, const Result<Json>& frame) {
    if (!frame) return;  // the connection answers that itself
    const auto request = read_request(*frame);
    if (!request) {
      ++bad_requests_;
      return from.answer(error_answer(request.error()));
    }
    std::visit([&](const auto& asked) { handle(from, asked); }, *request);
  }

  void handle(Connection& from, const SubmitRequest& request) {
    if (is_stopping_) return from.answer(error_answer(stopping_error()));
    if (auto refusal = memory_refusal()) return from.answer(error_answer(*refusal));
    const auto id = jobs_.submit(request.submission);
    if (!id) return from.answer(error_answer(id.error()));
    from.answer(ok_answer({{"job", *id}}));
  }

  // The job, or nothing after the client was told.
  const QueuedRun* find_for(Connection& from, const std::string& name) {
    const QueuedRun* job = jobs_.queue().find(std::string_view(name));
    if (job == nullptr) {
      from.answer(error_answer({ErrorKind::not_found, "there is no such run in the queue",
                                short_for_message(name), "'autotuned status' lists them"}));
    }
    return job;
  }

  void handle(Connection& from, const FindRequest& request) {
    if (const QueuedRun* job = find_for(from, request.job))
      from.answer(ok_answer({{"job", job->id}}));
  }

  void handle(Connection& from, const AttachRequest& request) {
    const QueuedRun* job = find_for(from, request.job);
    if (job == nullptr) return;
    if (auto refusal = memory_refusal()) return from.answer(error_answer(*refusal));
    auto reader = jobs_.events(job->id);
    if (!reader) return from.answer(error_answer(reader.error()));
    from.answer(ok_answer({{"job", job->id}}));
    from.watch(job->id, *std::move(reader), request.skip);
    from.advance(jobs_.end_of(*job));
  }

  void handle(Connection& from, const CancelRequest& request) {
    const auto id = jobs_.cancel(request.job);
    from.answer(id ? ok_answer({{"job", *id}}) : error_answer(id.error()));
  }

  void handle(Connection& from, const StatusRequest& /*request*/) {
    Json told = status();
    told["memory"] = jobs_.memory();
    if (view_) told["page"] = view_->address();
    from.answer(ok_answer(std::move(told)));
  }

  // The web page asks for this; the daemon's own clients ask by name.
  [[nodiscard]] Json status() const override {
    ToldJobs told = jobs_.queue().tell(kStatusBytes);
    for (Json& job : told.jobs)
      job["saved"] = jobs_.is_saved(job.at("id").get<std::int64_t>());
    Json counters = jobs_.counters();
    counters["connections"] = {
        {"accepted", accepted_}, {"refused", refused_}, {"dropped", dropped_}};
    counters["requests_refused"] = bad_requests_;
    return {{"version", AUTOTUNED_VERSION},
            {"process", ::getpid()},
            {"store", store_folder_},
            {"queue",
             {{"queued", jobs_.queue().count(JobState::queued)},
              {"running", jobs_.queue().count(JobState::running)}}},
            {"jobs", std::move(told.jobs)},
            {"jobs_left_out", told.left_out},
            {"counters", std::move(counters)},
            {"connections", connections_.size()}};
  }

  [[nodiscard]] const QueuedRun* find(std::int64_t job) const override {
    return jobs_.queue().find(job);
  }
  [[nodiscard]] Result<std::int64_t> cancel(std::int64_t job) override {
    return jobs_.cancel(std::to_string(job));
  }
  [[nodiscard]] Result<EventReader> events(std::int64_t job) const override {
    return jobs_.events(job);
  }
  [[nodiscard]] std::optional<Json> end_of(std::int64_t job) const override {
    const QueuedRun* const found = jobs_.queue().find(job);
    return found == nullptr ? std::nullopt : jobs_.end_of(*found);
  }

  void handle(Connection& from, const StopRequest& /*request*/) {
    from.answer(ok_answer({{"process", ::getpid()}}));
    asio::post(context_, [this] { stop("request"); });
  }

  [[nodiscard]] std::optional<Error> memory_refusal() const {
    if (resident_bytes(::getpid()) <= limits_.resident_bytes) return std::nullopt;
    return Error{ErrorKind::out_of_memory, "the daemon uses more memory than it allows itself",
                 "the daemon", "'autotuned stop' and start it again: the queue is kept"};
  }

  static Error stopping_error() {
    return {ErrorKind::busy, "the daemon is stopping", "the daemon", "start it again"};
  }

  void advance_watchers(std::int64_t id) {
    const QueuedRun* job = jobs_.queue().find(id);
    if (job == nullptr) return;
    const auto end = jobs_.end_of(*job);
    // A copy: a connection that closes meanwhile leaves the set.
    const auto connections = connections_;
    for (const auto& connection : connections) {
      if (connection->watched_job() == id) connection->advance(end);
    }
    if (view_) view_->changed(id);
    if (is_stopping_ && !jobs_.has_sessions()) finish();
  }

  void wait_for_signal() {
    signals_.async_wait([this](const error_code& error, int number) {
      if (error) return;
      if (requests_.take(number, std::chrono::steady_clock::now())) {
        stop("signal " + std::to_string(number));
      }
      wait_for_signal();
    });
  }

  void stop(const std::string& reason) {
    log_line(LogLevel::info, "stopping", {{"reason", reason}});
    if (!std::exchange(is_stopping_, true)) {
      notify_manager("STOPPING=1\nSTATUS=Stopping");
      error_code ignored;
      acceptor_.close(ignored);
      accept_timer_.cancel();
      if (view_) view_->stop();
    }
    jobs_.stop(limits_.stop_grace);
    wait_for_sessions(limits_.stop_grace + kReapLimit);
  }

  void wait_for_sessions(std::chrono::nanoseconds limit) {
    if (!jobs_.has_sessions()) return finish();
    stop_timer_.expires_after(limit);
    stop_timer_.async_wait([this](const error_code& error) {
      if (!error) finish();
    });
  }

  // Gives answers that are being sent one more turn of the loop.
  void finish() {
    asio::post(context_, [this] { context_.stop(); });
  }

  DaemonLimits limits_;
  asio::io_context context_{1};
  Listener listener_;
  Protocol::acceptor acceptor_;
  asio::signal_set signals_;
  asio::steady_timer accept_timer_;
  asio::steady_timer stop_timer_;
  ReceivedBytes received_;
  std::set<std::shared_ptr<Connection>> connections_;
  std::string store_folder_;
  QueueRunner jobs_;
  std::unique_ptr<QueueView> view_;
  bool is_stopping_ = false;
  StopRequests requests_;  // by signals
  std::int64_t accepted_ = 0;
  std::int64_t refused_ = 0;
  std::int64_t dropped_ = 0;
  std::int64_t bad_requests_ = 0;
};

}  // namespace

Result<void> serve(const std::filesystem::path& socket, const std::filesystem::path& store_folder,
                   const DaemonLimits& limits, const MakeQueueView& make_view) {
  // The reader of our log may end; the daemon goes on.
  std::signal(SIGPIPE, SIG_IGN);
  auto listener = Listener::open(socket);
  if (!listener) return tl::unexpected(listener.error());
  auto store = JobStore::open(store_folder);
  if (!store) return tl::unexpected(store.error());
  log_line(LogLevel::info, "serving",
           {{"process", std::to_string(::getpid())},
            {"socket", socket.string()},
            {"queue", store_folder.string()}});
  try {
    Server server(*std::move(listener), *std::move(store), limits);
    auto served = server.run(make_view);
    log_line(LogLevel::info, "stopped");
    return served;
  } catch (const boost::system::system_error& error) {
    return fail(ErrorKind::io, std::string("cannot serve: ") + error.what(), socket.string());
  }
}

}  // namespace autotuned::daemon
