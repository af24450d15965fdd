// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "base/frame.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "daemon/own_process.hpp"

namespace autotuned::daemon {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::nanoseconds;

constexpr nanoseconds kFrameLimit = std::chrono::seconds(10);

// How one session process ended.
struct SessionEnd {
  std::optional<int> exit_code;  // of the command, when the session reported a result
  std::string blamed_plugin;     // that was being loaded or asked when the session died
  bool is_loading = false;       // it was being loaded
  bool hung = false;             // the plugin did not answer in time
  bool was_killed = false;  // by SIGKILL from elsewhere: a person, or the kernel without memory
  std::string message;      // how the process ended
};

// One session process, from start to end.
class Attempt {
 public:
  Attempt(Process process, Descriptor socket, const SupervisorLimits& limits,
          const std::function<void(const Json&)>& on_event)
      : limits_(&limits),
        on_event_(&on_event),
        process_(std::move(process)),
        channel_(std::move(socket)),
        // Asio owns a copy: closing it must not close the channel's.
        readable_(context_, dup(channel_.descriptor())),
        signals_(context_, SIGINT, SIGTERM),
        answer_timer_(context_),
        cancel_timer_(context_) {}

  Result<void> send(const Json& request) { return channel_.send(request); }

  SessionEnd run() {
    wait_for_event();
    wait_for_signal();
    context_.run();
    if (auto exit = process_.wait(std::chrono::seconds(5))) {
      end_.message = exit->message();
      end_.was_killed = exit->signal == SIGKILL && !end_.hung;
    } else {
      process_.terminate(std::chrono::seconds(1));
      end_.message = "it closed its socket and went on";
    }
    end_.blamed_plugin = blamed_;
    return end_;
  }

  [[nodiscard]] const std::string& run_id() const { return run_id_; }
  [[nodiscard]] bool is_cancelled() const { return signal_count_ > 0; }

 private:
  void wait_for_event() {
    readable_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const error_code& error) {
                           if (error) return;
                           do {
                             auto frame = channel_.receive(kFrameLimit);
                             if (!frame) return stop();  // the session has ended
                             take(*frame);
                           } while (channel_.has_buffered_frame());
                           wait_for_event();
                         });
  }

  void take(const Json& event) {
    const std::string name = get_string(event, "event").value_or("");
    if (name == "run") run_id_ = get_string(event, "run").value_or("");
    if (name == "asking" || name == "loading_plugin") {
      blamed_ = get_string(event, "plugin").value_or("?");
      end_.is_loading = name == "loading_plugin";
      answer_timer_.expires_after(limits_->plugin_answer);
      answer_timer_.async_wait([this](const error_code& error) {
        if (error || blamed_.empty()) return;
        end_.hung = true;
        process_.signal_group(SIGKILL);
      });
    }
    if (name == "answered" || name == "plugins_loaded") {
      blamed_.clear();
      answer_timer_.cancel();
    }
    if (name == "result") {
      end_.exit_code = static_cast<int>(get_integer(event, "exit_code").value_or(1));
    }
    (*on_event_)(event);
  }

  void wait_for_signal() {
    signals_.async_wait([this](const error_code& error, int) {
      if (error) return;
      ++signal_count_;
      if (signal_count_ > 1 || !channel_.send(Json{{"request", "cancel"}})) {
        process_.signal_group(SIGKILL);
      } else {
        (*on_event_)(Json{{"event", "cancelling"}});
        cancel_timer_.expires_after(limits_->cancel_grace);
        cancel_timer_.async_wait([this](const error_code& timer_error) {
          if (!timer_error) process_.signal_group(SIGKILL);
        });
      }
      wait_for_signal();
    });
  }

  void stop() {
    signals_.cancel();
    answer_timer_.cancel();
    cancel_timer_.cancel();
  }

  const SupervisorLimits* limits_;
  const std::function<void(const Json&)>* on_event_;
  asio::io_context context_{1};
  Process process_;
  FrameChannel channel_;
  asio::posix::stream_descriptor readable_;
  asio::signal_set signals_;
  asio::steady_timer answer_timer_;
  asio::steady_timer cancel_timer_;
  std::string run_id_;
  std::string blamed_;  // runs code of this plugin
  int signal_count_ = 0;
  SessionEnd end_;
};

}  // namespace

Result<int> supervise(SessionRequest request, const SupervisorLimits& limits,
                      const std::function<void(const Json&)>& on_event) {
  int unexplained = 0;
  std::string suspect;  // worked when the session was killed
  for (;;) {
    auto session = start_own_process(kSessionProcess, /*is_silent=*/false);
    if (!session) return tl::unexpected(session.error());
    Attempt attempt(std::move(session->process), std::move(session->socket), limits, on_event);
    if (auto sent = attempt.send(request.to_json()); !sent) return tl::unexpected(sent.error());

    const SessionEnd end = attempt.run();
    if (end.exit_code) return *end.exit_code;
    if (attempt.is_cancelled()) return 130;
    if (!attempt.run_id().empty()) request.continue_run = attempt.run_id();
    request.faults.clear();
    // A plugin that uses up the memory is killed again; a stray kill hardly hits the same one twice.
    const bool is_stray = end.was_killed && suspect != end.blamed_plugin;
    suspect = end.blamed_plugin;
    if (!end.blamed_plugin.empty() && !is_stray) {
      const std::string outcome =
          end.hung ? "did not answer within " + format_duration(limits.plugin_answer)
                   : std::string("ended the process that ") +
                         (end.is_loading ? "loaded" : "asked") + " it: " + end.message;
      on_event({{"event", "warning"},
                {"text",
                 "plugin " + end.blamed_plugin + " " + outcome + "; the run goes on without it"}});
      request.faults.push_back({end.blamed_plugin, outcome, end.is_loading});
      request.without.push_back(end.blamed_plugin);
      continue;
    }
    if (++unexplained > limits.unexplained_deaths) {
      return fail(ErrorKind::crashed, "the session process ended again and again: " + end.message,
                  request.continue_run, "the same command continues this run");
    }
    on_event({{"event", "warning"},
              {"text", "the session process ended (" + end.message + "); it is started again"}});
  }
}

}  // namespace autotuned::daemon
