// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/supervised_session.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/orphans.hpp"

namespace autotuned::daemon {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::nanoseconds;

// After it closed its socket.
constexpr nanoseconds kExitLimit = std::chrono::seconds(5);
// Between two looks at everything else that the thread has to do.
constexpr int kEventsAtOnce = 64;

}  // namespace

struct SupervisedSession::Attempt {
  Attempt(asio::io_context& context, Process started, Descriptor socket)
      : process(std::move(started)),
        channel(std::move(socket)),
        stream(context),
        ended(context),
        answer_timer(context),
        exit_timer(context) {}

  // Asio gets copies: closing them must not close ours.
  Result<void> watch() {
    for (const auto& [ours, watched] :
         {std::pair{channel.descriptor(), &stream}, std::pair{process.pidfd(), &ended}}) {
      Descriptor copy(::fcntl(ours, F_DUPFD_CLOEXEC, 0));
      if (!copy.is_open()) {
        return tl::unexpected(system_error(errno, "cannot watch the session process"));
      }
      error_code failed;
      watched->assign(copy.get(), failed);
      if (failed) {
        return tl::unexpected(system_error(failed.value(), "cannot watch the session process"));
      }
      static_cast<void>(copy.release());
    }
    return {};
  }

  Process process;
  FrameChannel channel;
  asio::posix::stream_descriptor stream;  // the channel's socket
  asio::posix::stream_descriptor ended;
  asio::steady_timer answer_timer;
  asio::steady_timer exit_timer;
  std::string unsent;  // whole frames, of which the first may have been sent in part
  bool waits_to_send = false;
  std::string run_id;
  Json trial;                    // that is going on
  std::string blamed;            // the plugin whose code it runs
  bool is_loading = false;       // that code is being loaded
  bool hung = false;             // the plugin did not answer in time
  bool was_left = false;         // it closed its connection and did not exit within kExitLimit
  std::optional<int> exit_code;  // of the command, when the session reported a result
};

SupervisedSession::SupervisedSession(asio::io_context& context, SessionRequest request,
                                     const SupervisorLimits& limits, SpawnOptions spawn_options,
                                     OnEvent on_event, OnEnd on_end)
    : context_(&context),
      request_(std::move(request)),
      limits_(limits),
      spawn_options_(std::move(spawn_options)),
      on_event_(std::move(on_event)),
      on_end_(std::move(on_end)),
      cancel_timer_(context) {}

void SupervisedSession::start() {
  asio::post(*context_, [self = shared_from_this()] { self->begin(); });
}

pid_t SupervisedSession::pid() const {
  return attempt_ ? attempt_->process.pid() : -1;
}

void SupervisedSession::begin() {
  if (cancels_ > 0) return finish(kCancelled);
  auto process = start_own_process(kSessionProcess, spawn_options_);
  if (!process) return finish(tl::unexpected(process.error()));
  attempt_ =
      std::make_shared<Attempt>(*context_, std::move(process->process), std::move(process->socket));
  if (auto watched = attempt_->watch(); !watched) return finish(tl::unexpected(watched.error()));
  // The process reads this first. A process that was killed before it did so is started again.
  if (auto sent = tell(request_.to_json()); !sent && sent.error().kind != ErrorKind::crashed) {
    return finish(tl::unexpected(sent.error()));
  }
  wait_for_events();
  wait_for_end();
}

Result<void> SupervisedSession::tell(const Json& message) {
  const std::string body = to_line(message);
  if (body.size() > kMaxFrameBytes) {
    return fail(ErrorKind::invalid,
                "the request to the session has " + std::to_string(body.size()) +
                    " bytes, at most " + std::to_string(kMaxFrameBytes) + " can be sent",
                "the session process",
                request_.script ? "give the script shorter arguments" : "make the recipe smaller");
  }
  attempt_->unsent += encode_frame(body);
  return send_unsent();
}

Result<void> SupervisedSession::send_unsent() {
  const auto attempt = attempt_;
  std::string& unsent = attempt->unsent;
  while (!unsent.empty()) {
    const ssize_t count = ::send(attempt->channel.descriptor(), unsent.data(), unsent.size(),
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      unsent.erase(0, static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      unsent.clear();
      return tl::unexpected(system_error(errno, "cannot send", "the session process"));
    }
  }
  if (unsent.empty() || std::exchange(attempt->waits_to_send, true)) return {};
  attempt->stream.async_wait(asio::posix::stream_descriptor::wait_write,
                             [self = shared_from_this(), attempt](const error_code& error) {
                               attempt->waits_to_send = false;
                               if (error || self->attempt_ != attempt) return;
                               // Without the rest of it the session would wait for ever.
                               if (!self->send_unsent()) attempt->process.signal_group(SIGKILL);
                             });
  return {};
}

void SupervisedSession::finish(Result<int> outcome) {
  attempt_.reset();
  cancel_timer_.cancel();
  asio::post(*context_, [self = shared_from_this(), outcome = std::move(outcome)]() mutable {
    self->on_end_(std::move(outcome));
  });
}

void SupervisedSession::wait_for_events() {
  attempt_->stream.async_wait(
      asio::posix::stream_descriptor::wait_read,
      [self = shared_from_this(), attempt = attempt_](const error_code& error) {
        if (error || self->attempt_ != attempt) return;
        if (!self->take_events()) self->expect_end();
      });
}

bool SupervisedSession::take_events() {
  const auto attempt = attempt_;
  for (int count = 0; count < kEventsAtOnce; ++count) {
    auto frame = attempt->channel.receive(nanoseconds(0));
    if (frame) {
      take(*frame);
      continue;
    }
    if (frame.error().kind != ErrorKind::timeout) return false;
    wait_for_events();
    return true;
  }
  // There may be whole frames in the channel, of which the socket says nothing.
  asio::post(*context_, [self = shared_from_this(), attempt] {
    if (self->attempt_ != attempt) return;
    if (!self->take_events()) self->expect_end();
  });
  return true;
}

Error SupervisedSession::take_what_is_there(Attempt& attempt) {
  for (;;) {
    auto frame = attempt.channel.receive(nanoseconds(0));
    if (!frame) return std::move(frame.error());
    take(*frame);
  }
}

void SupervisedSession::take(const Json& event) {
  const std::string name = get_string(event, "event").value_or("");
  if (name == "run") attempt_->run_id = get_string(event, "run").value_or("");
  if (name == "trial_started") attempt_->trial = member(event, "trial");
  if (name == "trial_finished") attempt_->trial = Json();
  if (name == "asking" || name == "loading_plugin") {
    attempt_->blamed = get_string(event, "plugin").value_or("?");
    attempt_->is_loading = name == "loading_plugin";
    attempt_->answer_timer.expires_after(limits_.plugin_answer);
    attempt_->answer_timer.async_wait(
        [self = shared_from_this(), attempt = attempt_](const error_code& error) {
          if (error || self->attempt_ != attempt) return;
          // This thread may have been held up: the answer, and more, may be there unread.
          const Error end = self->take_what_is_there(*attempt);
          if (end.kind != ErrorKind::timeout || attempt->blamed.empty()) return;
          if (attempt->answer_timer.expiry() > asio::steady_timer::clock_type::now()) return;
          attempt->hung = true;
          attempt->process.signal_group(SIGKILL);
        });
  }
  if (name == "answered" || name == "plugins_loaded") {
    attempt_->blamed.clear();
    attempt_->answer_timer.cancel();
  }
  if (name == "answered" && get_bool(event, "is_failure").value_or(false)) {
    // The failure is stored already: the session stores before it reports.
    const std::string plugin = get_string(event, "plugin").value_or("");
    std::erase_if(request_.faults,
                  [&](const PluginFault& fault) { return fault.plugin == plugin; });
  }
  if (is_progress(event)) unexplained_deaths_ = 0;
  if (name == "result") {
    attempt_->exit_code = static_cast<int>(get_integer(event, "exit_code").value_or(1));
  }
  on_event_(event);
}

// Deaths are counted until there is progress: a decided proposal, or a training step beyond the highest so far. A step
// that is trained again after a death is no progress.
bool SupervisedSession::is_progress(const Json& event) {
  const std::string name = get_string(event, "event").value_or("");
  if (name == "trial_finished") {
    const Json& trial = member(event, "trial");
    return get_string(trial, "kind").value_or("") == "proposal" &&
           get_string(trial, "verdict").value_or("") != "interrupted";
  }
  if (name != "training") return false;
  const std::int64_t step = get_integer(member(event, "progress"), "step").value_or(0);
  if (step <= highest_step_) return false;
  highest_step_ = step;
  return true;
}

// An extension can crash the session like any code of the user, and only the trial tells which one. The number of the
// trial differs after each restart, so it is left out.
bool SupervisedSession::is_lost(const Json& trial) {
  std::string deadly;
  if (get_string(trial, "kind").value_or("") == "proposal") {
    deadly = to_line(Json::array({member(trial, "reference"), member(trial, "change")}));
  }
  const bool is_again = std::exchange(last_deadly_, deadly) == deadly;
  return is_again && !deadly.empty() && given_up_.insert(deadly).second;
}

// The socket is closed: what is left is to leave.
void SupervisedSession::expect_end() {
  attempt_->answer_timer.cancel();
  attempt_->exit_timer.expires_after(kExitLimit);
  attempt_->exit_timer.async_wait(
      [self = shared_from_this(), attempt = attempt_](const error_code& error) {
        if (error || self->attempt_ != attempt) return;
        attempt->was_left = true;
        attempt->process.signal_group(SIGKILL);
      });
}

void SupervisedSession::wait_for_end() {
  attempt_->ended.async_wait(
      asio::posix::stream_descriptor::wait_read,
      [self = shared_from_this(), attempt = attempt_](const error_code& error) {
        if (error || self->attempt_ != attempt) return;
        // Take the events that it sent before it ended.
        self->take_what_is_there(*attempt);
        self->conclude();
      });
}

// The process has ended: the run has too, or another one goes on.
void SupervisedSession::conclude() {
  const auto attempt = std::exchange(attempt_, nullptr);
  for (asio::steady_timer* timer : {&attempt->answer_timer, &attempt->exit_timer})
    timer->cancel();
  attempt->stream.close();
  const ProcessExit exit = attempt->process.terminate(nanoseconds(0));
  const std::string message =
      attempt->was_left
          ? "it closed its connection and did not exit within " + format_duration(kExitLimit)
          : exit.message();
  if (attempt->exit_code) return finish(*attempt->exit_code);
  if (cancels_ > 0) return finish(kCancelled);
  if (!attempt->run_id.empty()) request_.continue_run = attempt->run_id;
  // A plugin that uses up the memory is killed again; a stray kill hardly hits the same one twice.
  const bool was_killed = exit.signal == SIGKILL && !attempt->hung && !attempt->was_left;
  const bool is_stray = was_killed && suspect_ != attempt->blamed;
  suspect_ = attempt->blamed;
  if (!attempt->blamed.empty() && !is_stray) {
    const std::string outcome =
        attempt->hung ? "did not answer within " + format_duration(limits_.plugin_answer)
                      : std::string("ended the process that ") +
                            (attempt->is_loading ? "loaded" : "asked") + " it: " + message;
    if (request_.script) {
      return finish(fail(ErrorKind::crashed, "plugin " + attempt->blamed + " " + outcome, "",
                         "leave it out: --without " + attempt->blamed));
    }
    on_event_(
        {{"event", "warning"},
         {"text", "plugin " + attempt->blamed + " " + outcome + "; the run goes on without it"}});
    request_.faults.push_back({attempt->blamed, outcome, attempt->is_loading});
    request_.without.push_back(attempt->blamed);
  } else if (request_.script) {
    return finish(fail(ErrorKind::crashed, "the session process ended: " + message));
  } else if (is_lost(attempt->trial)) {
    const auto number = static_cast<int>(get_integer(attempt->trial, "number").value_or(0));
    on_event_({{"event", "warning"},
               {"text", "the session process ended twice in the trial of the same change (" +
                            message + "); trial " + std::to_string(number) +
                            " counts as failed, and the run goes on without it"}});
    request_.lost_trials.push_back(number);
    unexplained_deaths_ = 0;
  } else if (++unexplained_deaths_ > limits_.unexplained_deaths) {
    return finish(fail(ErrorKind::crashed, "the session process ended again and again: " + message,
                       request_.continue_run, "the same command continues this run"));
  } else {
    on_event_({{"event", "warning"},
               {"text", "the session process ended (" + message + "); it is started again"}});
  }
  ++restarts_;
  end_leftovers();
  begin();
}

void SupervisedSession::end_leftovers() const {
  const std::string mark = std::string(kMarkVariable) + "=";
  std::vector<std::string> variables = spawn_options_.variables;
  if (spawn_options_.environment) {
    variables.insert(variables.end(), spawn_options_.environment->begin(),
                     spawn_options_.environment->end());
  }
  for (const std::string& variable : variables) {
    if (variable.starts_with(mark)) {
      end_processes_of({variable.substr(mark.size())}, nanoseconds(0));
    }
  }
}

void SupervisedSession::cancel(nanoseconds grace, const Json& request) {
  ++cancels_;
  if (!attempt_) return;  // it has ended, or begin() will see it
  if (cancels_ > 1 || !tell(request)) {
    attempt_->process.signal_group(SIGKILL);
    return;
  }
  on_event_(Json{{"event", "cancelling"}});
  cancel_timer_.expires_after(grace);
  cancel_timer_.async_wait(
      [self = shared_from_this(), attempt = attempt_](const error_code& error) {
        if (error || self->attempt_ != attempt) return;
        attempt->process.signal_group(SIGKILL);
      });
}

bool SupervisedSession::leave() {
  if (!attempt_ || attempt_->process.pid() < 0) return false;
  attempt_->process.terminate(nanoseconds(0), nanoseconds(0));
  return true;
}

}  // namespace autotuned::daemon
