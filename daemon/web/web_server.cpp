// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/web_server.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/address_v6.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/web/gate.hpp"
#include "daemon/web/history_thread.hpp"
#include "daemon/web/http_connection.hpp"
#include "daemon/web/page_markup.hpp"
#include "daemon/web/routes.hpp"

namespace autotuned::daemon {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Without descriptors to accept with, until some are free again.
constexpr std::chrono::seconds kAcceptAgain{1};
// A free port of IPv4 may be taken on IPv6.
constexpr int kPortTries = 16;

WebAnswer nothing_there() {
  return error_web_answer({ErrorKind::not_found, "there is nothing here", "the page", ""});
}

// Nothing: there is no such address on this machine.
Result<std::unique_ptr<tcp::acceptor>> listen(asio::io_context& context,
                                              const tcp::endpoint& endpoint) {
  auto acceptor = std::make_unique<tcp::acceptor>(context);
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error && endpoint.protocol() == tcp::v6()) {
    acceptor->set_option(asio::ip::v6_only(true), error);
  }
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (!error) return acceptor;
  if (endpoint.protocol() == tcp::v6() && error != asio::error::address_in_use) return nullptr;
  const bool is_taken = error == asio::error::address_in_use;
  return fail(is_taken ? ErrorKind::busy : ErrorKind::io,
              "the page cannot be served: " + error.message(),
              endpoint.address().to_string() + ":" + std::to_string(endpoint.port()),
              is_taken ? "choose another port with --web PORT, or none" : "");
}

struct Listening {
  std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
  std::uint16_t port = 0;
};

Result<Listening> listen_on_loopback(asio::io_context& context, std::uint16_t wanted) {
  for (int tries = 1;; ++tries) {
    auto four = listen(context, {asio::ip::address_v4::loopback(), wanted});
    if (!four) return tl::unexpected(four.error());
    Listening listening;
    listening.port = (*four)->local_endpoint().port();
    auto six = listen(context, {asio::ip::address_v6::loopback(), listening.port});
    // Another program on the IPv6 port would get requests for us, because "localhost" may resolve to ::1.
    if (!six && (wanted != 0 || tries == kPortTries)) return tl::unexpected(six.error());
    if (!six) continue;
    listening.acceptors.push_back(*std::move(four));
    if (*six) listening.acceptors.push_back(*std::move(six));
    return listening;
  }
}

std::int64_t number_or_zero(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::max<std::int64_t>(0, number);
}

class WebPage : public QueueView {
 public:
  WebPage(asio::io_context& context, QueueAccess& queue, Listening listening,
          const WebOptions& options)
      : context_(context),
        queue_(queue),
        limits_(options.limits),
        gate_(listening.port, make_web_secrets(), options.may_control),
        acceptors_(std::move(listening.acceptors)),
        history_(
            [file = options.history](const HistoryQuery& query, const IsStopped& is_stopped) {
              return answer_from_history(query, file, is_stopped);
            },
            options.limits.questions) {
    for (const auto& acceptor : acceptors_)
      accept(*acceptor);
  }

  void changed(std::int64_t job) override {
    const auto end = queue_.end_of(job);
    // A copy: a connection that closes meanwhile leaves the list.
    const auto connections = connections_;
    for (const auto& connection : connections) {
      if (connection->followed_job() == job) connection->advance(end);
    }
  }

  [[nodiscard]] std::string address() const override { return gate_.address(); }

  void stop() override {
    error_code ignored;
    for (const auto& acceptor : acceptors_)
      acceptor->close(ignored);
    const auto connections = connections_;
    for (const auto& connection : connections)
      connection->close();
  }

 private:
  void accept(tcp::acceptor& acceptor) {
    acceptor.async_accept([this, &acceptor](const error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        auto timer = std::make_shared<asio::steady_timer>(context_, kAcceptAgain);
        timer->async_wait([this, &acceptor, timer](const error_code& cancelled) {
          if (!cancelled && acceptor.is_open()) accept(acceptor);
        });
        return;
      }
      take(std::move(socket));
      accept(acceptor);
    });
  }

  void take(tcp::socket socket) {
    if (connections_.size() >= limits_.connections && !close_a_stranger()) return;  // closes it
    auto connection = std::make_shared<HttpConnection>(
        std::move(socket), limits_.http,
        [this](HttpConnection& from, const WebRequest& request) { take_request(from, request); },
        [this](HttpConnection& closed) { std::erase(connections_, closed.shared_from_this()); });
    connections_.push_back(connection);
    connection->start();
  }

  // Closes the connection that has been open longest without the cookie, so that connections of other users of the
  // machine cannot lock out the user who has the address. False: all connections have shown the cookie.
  bool close_a_stranger() {
    const auto found =
        std::ranges::find_if(connections_, [](const std::shared_ptr<HttpConnection>& connection) {
          return !connection->is_admitted();
        });
    if (found == connections_.end()) return false;
    const std::shared_ptr<HttpConnection> stranger = *found;
    stranger->close();  // takes it out of the list
    return true;
  }

  void take_request(HttpConnection& from, const WebRequest& request) {
    auto admitted = gate_.admit(request);
    if (auto* const refusal = std::get_if<WebAnswer>(&admitted)) {
      return from.refuse(std::move(*refusal));
    }
    from.admit();
    const auto query = route(request.method, std::get<std::string>(admitted));
    if (!query) return from.answer(nothing_there());
    std::visit([&](const auto& asked) { handle(from, request, asked); }, *query);
  }

  void handle(HttpConnection& from, const WebRequest& /*request*/, const FileQuery& asked) {
    auto file = page_file(asked.name);
    from.answer(file ? *std::move(file) : nothing_there());
  }

  void handle(HttpConnection& from, const WebRequest& /*request*/, const StatusQuery& /*asked*/) {
    Json status = queue_.status();
    status["may_control"] = gate_.may_control();
    from.answer(json_answer(status));
  }

  void handle(HttpConnection& from, const WebRequest& request, const EventsQuery& asked) {
    if (queue_.find(asked.job) == nullptr) return from.answer(nothing_there());
    auto reader = queue_.events(asked.job);
    if (!reader) return from.answer(error_web_answer(reader.error()));
    from.follow(asked.job, *std::move(reader), number_or_zero(request.last_event_id));
    from.advance(queue_.end_of(asked.job));
  }

  void handle(HttpConnection& from, const WebRequest& /*request*/, const CancelQuery& asked) {
    const auto cancelled = queue_.cancel(asked.job);
    from.answer(cancelled ? json_answer({{"job", *cancelled}})
                          : error_web_answer(cancelled.error()));
  }

  void handle(HttpConnection& from, const WebRequest& /*request*/, const HistoryQuery& asked) {
    // The thread of the history only passes the connection on.
    const bool is_taken = history_.ask(
        asked,
        [&context = context_, connection = from.shared_from_this()](WebAnswer answer) mutable {
          asio::post(context,
                     [connection = std::move(connection), answer = std::move(answer)]() mutable {
                       connection->answer(std::move(answer));
                     });
        });
    if (is_taken) return;
    from.answer(error_web_answer({ErrorKind::busy, "too many questions wait for the history",
                                  "the daemon", "try again in a moment"}));
  }

  asio::io_context& context_;
  QueueAccess& queue_;
  WebLimits limits_;
  Gate gate_;
  std::vector<std::unique_ptr<tcp::acceptor>> acceptors_;
  std::vector<std::shared_ptr<HttpConnection>> connections_;  // the oldest first
  HistoryThread history_;                                     // the last: its thread ends first
};

}  // namespace

MakeQueueView web_page(WebOptions options) {
  return [options = std::move(options)](asio::io_context& context,
                                        QueueAccess& queue) -> Result<std::unique_ptr<QueueView>> {
    auto listening = listen_on_loopback(context, options.port);
    if (!listening) return tl::unexpected(listening.error());
    return std::make_unique<WebPage>(context, queue, *std::move(listening), options);
  };
}

}  // namespace autotuned::daemon
