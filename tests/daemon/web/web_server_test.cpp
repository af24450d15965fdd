// SPDX-License-Identifier: Apache-2.0
// The page over real sockets: what a browser gets, and what a client that is none gets.
#include "daemon/web/web_server.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <thread>
#include <utility>

#include "base/descriptor.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/web/stored_run.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// A queue with one job that runs, number 1.
class OneJob : public QueueAccess {
 public:
  explicit OneJob(std::filesystem::path events) : events_(std::move(events)) {
    job_.id = 1;
    job_.state = JobState::running;
  }

  [[nodiscard]] Json status() const override {
    return {{"version", "test"}, {"jobs", Json::array({job_.to_json()})}};
  }
  [[nodiscard]] const QueuedRun* find(std::int64_t job) const override {
    return job == 1 ? &job_ : nullptr;
  }
  [[nodiscard]] Result<std::int64_t> cancel(std::int64_t job) override {
    ++cancels;
    if (job != 1) return fail(ErrorKind::not_found, "there is no such run in the queue");
    return job;
  }
  [[nodiscard]] Result<EventReader> events(std::int64_t /*job*/) const override {
    return EventReader::open(events_);
  }
  [[nodiscard]] std::optional<Json> end_of(std::int64_t /*job*/) const override { return end; }

  std::atomic<int> cancels = 0;
  std::optional<Json> end;  // of the daemon's thread

 private:
  std::filesystem::path events_;
  QueuedRun job_;
};

std::string request_text(const std::string& method, const std::string& target,
                         const std::string& headers) {
  return method + " " + target + " HTTP/1.1\r\n" + headers + "\r\n";
}

class Client {
 public:
  explicit Client(int port, bool is_six = false)
      : socket_(::socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = four.sin_port;
    six.sin6_addr = in6addr_loopback;
    is_connected_ =
        (is_six ? ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&six), sizeof(six))
                : ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&four),
                            sizeof(four))) == 0;
  }

  [[nodiscard]] bool is_connected() const { return is_connected_; }
  void send(const std::string& text) const {
    static_cast<void>(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL));
  }
  // Reads until `text` has arrived; false when the connection ends before.
  bool read_until(const std::string& text) {
    while (received_.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  // All that comes until the other side closes.
  std::string rest() {
    while (read_some()) {
    }
    return received_;
  }
  // One answer by its length; the connection stays.
  std::string answer() {
    if (!read_until("\r\n\r\n")) return received_;
    const std::size_t head = received_.find("\r\n\r\n") + 4;
    const std::size_t field = received_.find("Content-Length: ");
    if (field == std::string::npos) return received_;
    const auto length = static_cast<std::size_t>(std::stoul(received_.substr(field + 16)));
    while (received_.size() < head + length) {
      if (!read_some()) break;
    }
    const std::string whole = received_.substr(0, head + length);
    received_.erase(0, head + length);
    return whole;
  }

 private:
  bool read_some() {
    if (!wait_readable(socket_.get(), 20s)) return false;
    std::string chunk(4096, '\0');
    const ssize_t count = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (count <= 0) return false;
    received_.append(chunk, 0, static_cast<std::size_t>(count));
    return true;
  }

  Descriptor socket_;
  bool is_connected_ = false;
  std::string received_;
};

class WebServer : public testing::Test {
 protected:
  void TearDown() override {
    if (!view_) return;
    on_thread([&] { view_->stop(); });
    context_.stop();
    thread_.join();
    view_.reset();
  }

  void serve(WebLimits limits = {}, bool may_control = false) {
    auto made = web_page({.port = 0,
                          .may_control = may_control,
                          .history = folder_ / "history.db",
                          .limits = limits})(context_, queue_);
    ASSERT_TRUE(made) << made.error().message();
    view_ = *std::move(made);
    thread_ = std::thread([this] {
      const auto guard = boost::asio::make_work_guard(context_);
      context_.run();
    });
    const std::string address = view_->address();
    port_ = std::stoi(address.substr(address.rfind(':') + 1));
    token_ = address.substr(address.find('=') + 1);
  }

  // On the daemon's thread, and returns when it is done.
  void on_thread(const std::function<void()>& work) {
    std::promise<void> is_done;
    boost::asio::post(context_, [&] {
      work();
      is_done.set_value();
    });
    is_done.get_future().wait();
  }

  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::string headers() const {
    return "Host: " + host() + "\r\nCookie: " + cookie_ + "\r\n";
  }

  // What a browser does with the address.
  void enter() {
    Client client(port_);
    client.send(request_text("GET", "/?token=" + token_, "Host: " + host() + "\r\n"));
    const std::string answer = client.answer();
    ASSERT_THAT(answer, StartsWith("HTTP/1.1 303"));
    folder_path_ = after(answer, "Location: ", "\r\n");
    cookie_ = after(answer, "Set-Cookie: ", ";");
  }
  static std::string after(const std::string& text, const std::string& begin,
                           const std::string& end) {
    const std::size_t from = text.find(begin);
    if (from == std::string::npos) return {};
    return text.substr(from + begin.size(), text.find(end, from) - from - begin.size());
  }
  [[nodiscard]] std::string get(const std::string& path) const {
    Client client(port_);
    client.send(request_text("GET", folder_path_ + path, headers()));
    return client.answer();
  }

  [[nodiscard]] Json json_at(const std::string& path) const {
    const std::string answer = get(path);
    const auto json = parse_json(answer.substr(answer.find("\r\n\r\n") + 4), path);
    EXPECT_TRUE(json) << answer;
    return json.value_or(Json::object());
  }
  // Without how long the body is.
  static std::string head_of(const std::string& answer) {
    std::string head = answer.substr(0, answer.find("\r\n\r\n"));
    std::erase(head, '\r');
    return std::regex_replace(head, std::regex("Content-Length: [0-9]+"), "Content-Length: …");
  }

  TemporaryFolder folder_;
  OneJob queue_{folder_ / "events"};
  boost::asio::io_context context_{1};
  std::unique_ptr<QueueView> view_;
  std::thread thread_;
  int port_ = 0;
  std::string token_;
  std::string folder_path_;
  std::string cookie_;
};

TEST_F(WebServer, ServesThePageToWhoHasTheToken) {
  serve();
  EXPECT_THAT(get("/"), StartsWith("HTTP/1.1 403"));
  enter();
  const std::string page = get("");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200"));
  EXPECT_NE(page.find("<!doctype html>"), std::string::npos);
  EXPECT_EQ(page.find(token_), std::string::npos);
  tests::Cases cases;
  for (const char* const file : {"", "files/page.css", "api/status"})
    cases.add("GET " + std::string(file), "\n" + head_of(get(file)));
  tests::expect_golden("daemon/web/golden/heads.txt", cases.text());
  EXPECT_EQ(json_at("api/status").at("may_control"), false);
  EXPECT_EQ(get("api/status").find(token_), std::string::npos);
  EXPECT_THAT(get("nowhere"), StartsWith("HTTP/1.1 404"));
}

TEST_F(WebServer, AnswersSeveralRequestsOfOneConnection) {
  serve();
  enter();
  Client client(port_);
  for (int i = 0; i < 3; ++i) {
    client.send(request_text("GET", folder_path_ + "api/status", headers()));
    EXPECT_THAT(client.answer(), StartsWith("HTTP/1.1 200"));
  }
  client.send(
      request_text("GET", folder_path_ + "api/status", headers() + "Connection: close\r\n"));
  EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 200"));
}

TEST_F(WebServer, ListensOnBothLoopbacksAlone) {
  serve();
  enter();
  Client six(port_, true);
  if (!six.is_connected()) GTEST_SKIP() << "this machine has no IPv6 loopback";
  six.send(
      request_text("GET", folder_path_ + "api/status",
                   "Host: [::1]:" + std::to_string(port_) + "\r\nCookie: " + cookie_ + "\r\n"));
  EXPECT_THAT(six.answer(), StartsWith("HTTP/1.1 200"));
}

TEST_F(WebServer, RefusesAPortThatIsTaken) {
  serve();
  boost::asio::io_context other;
  const auto made = web_page({.port = static_cast<std::uint16_t>(port_)})(other, queue_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::busy);
}

TEST_F(WebServer, TellsTheHistory) {
  store(sample_record(), folder_ / "history.db");
  serve();
  enter();
  EXPECT_EQ(json_at("api/runs").at("runs").at(0).at("run"), "r-20261121-7f3a9c");
  EXPECT_EQ(json_at("api/runs/last").at("trials").at(0).at("outcome"), "kept");
  EXPECT_TRUE(json_at("api/compare/last/last.1").contains("is_side_by_side"));
  EXPECT_THAT(get("api/runs/r-1999"), StartsWith("HTTP/1.1 404"));
}

TEST_F(WebServer, CancelsOnlyWhereItMay) {
  serve({}, false);
  enter();
  Client client(port_);
  const std::string origin = "Origin: http://" + host() + "\r\nContent-Length: 0\r\n";
  client.send(request_text("POST", folder_path_ + "api/jobs/1/cancel", headers() + origin));
  EXPECT_THAT(client.answer(), StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(queue_.cancels, 0);
}

TEST_F(WebServer, CancelsForThePageItself) {
  serve({}, true);
  enter();
  const auto cancel = [&](const std::string& origin, const std::string& job) {
    Client client(port_);
    client.send(request_text("POST", folder_path_ + "api/jobs/" + job + "/cancel",
                             headers() + origin + "Content-Length: 0\r\n"));
    return client.answer();
  };
  EXPECT_THAT(cancel("", "1"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(cancel("Origin: http://example.org\r\n", "1"), StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(queue_.cancels, 0);
  const std::string own = "Origin: http://" + host() + "\r\n";
  EXPECT_THAT(cancel(own, "1"), EndsWith("\r\n\r\n{\"job\":1}"));
  EXPECT_THAT(cancel(own, "2"), StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(queue_.cancels, 2);
  // Nothing is done for a link.
  EXPECT_THAT(get("api/jobs/1/cancel"), StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(queue_.cancels, 2);
}

TEST_F(WebServer, FollowsARun) {
  auto log = EventLog::open(folder_ / "events");
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->append({{"event", "run"}, {"run", "r-1"}}, 1s));
  serve();
  enter();
  Client client(port_);
  client.send(request_text("GET", folder_path_ + "api/jobs/1/events", headers()));
  ASSERT_TRUE(client.read_until("id: 1\ndata: {\"event\":\"run\""));
  // What comes later is told when the daemon says so.
  ASSERT_TRUE(log->append({{"event", "phase"}, {"phase", "line\nbreak"}}, 2s));
  on_thread([&] { view_->changed(1); });
  ASSERT_TRUE(client.read_until("id: 2\ndata: {\"event\":\"phase\",\"phase\":\"line\\nbreak\"}"));
  on_thread([&] {
    queue_.end = Json{{"state", "finished"}};
    view_->changed(1);
  });
  const std::string all = client.rest();
  EXPECT_THAT(all, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(all, EndsWith("event: ended\ndata: {\"state\":\"finished\"}\n\n"));
}

TEST_F(WebServer, GoesOnBehindTheLastEventThatWasSeen) {
  auto log = EventLog::open(folder_ / "events");
  ASSERT_TRUE(log);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(log->append({{"event", "note"}, {"text", std::to_string(i)}}, 1s));
  queue_.end = Json{{"state", "finished"}};
  serve();
  enter();
  Client client(port_);
  client.send(
      request_text("GET", folder_path_ + "api/jobs/1/events", headers() + "Last-Event-ID: 2\r\n"));
  const std::string all = client.rest();
  EXPECT_EQ(all.find("id: 2\n"), std::string::npos);
  EXPECT_LT(all.find("id: 3\n"), all.find("event: ended"));
  EXPECT_NE(all.find("event: ended"), std::string::npos);
}

TEST_F(WebServer, ShowsThatItIsAliveWhileNothingHappens) {
  folder_.write("events", "");
  WebLimits limits;
  limits.http.beat = 1ms;
  serve(limits);
  enter();
  Client client(port_);
  client.send(request_text("GET", folder_path_ + "api/jobs/1/events", headers()));
  EXPECT_TRUE(client.read_until(":\n\n:\n\n"));
}

TEST_F(WebServer, CannotFollowWhatIsNotThere) {
  serve();
  enter();
  EXPECT_THAT(get("api/jobs/2/events"), StartsWith("HTTP/1.1 404"));
  // It has not begun: there is no log.
  EXPECT_THAT(get("api/jobs/1/events"), StartsWith("HTTP/1.1 404"));
}

TEST_F(WebServer, RefusesWhatIsNoRequest) {
  serve();
  const auto answer_to = [&](const std::string& text) {
    Client client(port_);
    client.send(text);
    return client.rest();
  };
  EXPECT_THAT(answer_to("\x16\x03\x01 not HTTP at all\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer_to("GET / HTTP/9.9\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer_to("GET /\r\nHost\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer_to(request_text("GET", "/", "X: " + std::string(20'000, 'x') + "\r\n")),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(answer_to(request_text("POST", "/", "Content-Length: 1000000\r\n")),
              StartsWith("HTTP/1.1 413"));
  // Two hosts are none.
  EXPECT_THAT(answer_to(request_text(
                  "GET", "/?token=" + token_,
                  "Host: " + host() + "\r\nHost: " + host() + "\r\nConnection: close\r\n")),
              StartsWith("HTTP/1.1 403"));
}

TEST_F(WebServer, DropsWhoAsksNothing) {
  WebLimits limits;
  limits.http.stranger_patience = 50ms;
  serve(limits);
  Client silent(port_);
  EXPECT_EQ(silent.rest(), "");
  Client half(port_);
  half.send("GET / HTTP/1.1\r\nHost:");
  EXPECT_EQ(half.rest(), "");
}

TEST_F(WebServer, HoldsABoundedNumberOfConnections) {
  WebLimits limits;
  limits.connections = 2;
  serve(limits);
  enter();
  const auto wait_for_answer = [&](Client& client) {
    client.send(request_text("GET", folder_path_ + "api/status", headers()));
    return client.answer();
  };
  {
    Client one(port_);
    Client two(port_);
    EXPECT_THAT(wait_for_answer(one), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(wait_for_answer(two), StartsWith("HTTP/1.1 200"));
    Client three(port_);
    EXPECT_EQ(three.rest(), "");
  }
  // Those that went make room.
  for (;;) {
    Client again(port_);
    if (wait_for_answer(again) != "") break;
    std::this_thread::yield();
  }
}

// Any user of the machine can connect. Whoever does not know the address cannot keep out the one who does.
TEST_F(WebServer, ClosesTheOldestStrangerForAnother) {
  WebLimits limits;
  limits.connections = 2;
  limits.http.stranger_patience = 1h;
  serve(limits);
  enter();
  Client mine(port_);
  mine.send(request_text("GET", folder_path_ + "api/status", headers()));
  EXPECT_THAT(mine.answer(), StartsWith("HTTP/1.1 200"));
  Client idle(port_);
  EXPECT_THAT(get("api/status"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(idle.rest(), "");
  // The one that has shown the cookie is older than the stranger, and stays.
  mine.send(request_text("GET", folder_path_ + "api/status", headers()));
  EXPECT_THAT(mine.answer(), StartsWith("HTTP/1.1 200"));
}

TEST_F(WebServer, EndsTheConnectionThatItRefuses) {
  serve();
  enter();
  Client client(port_);
  client.send(request_text("GET", folder_path_ + "api/status", "Host: " + host() + "\r\n"));
  const std::string answer = client.rest();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
}

// The first of several headers does not decide for the others.
TEST_F(WebServer, RefusesSeveralHeadersOfTheSite) {
  serve();
  enter();
  const auto ask = [&](const std::string& sites) {
    Client client(port_);
    client.send(request_text("GET", folder_path_ + "api/status", headers() + sites));
    return client.answer();
  };
  const std::string same = "Sec-Fetch-Site: same-origin\r\n";
  const std::string cross = "Sec-Fetch-Site: cross-site\r\n";
  EXPECT_THAT(ask(same), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(cross), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(same + cross), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(cross + same), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(same + "sec-fetch-site: same-origin\r\n"), StartsWith("HTTP/1.1 403"));
}

TEST_F(WebServer, ClosesWhatIsOpenWhenTheDaemonEnds) {
  folder_.write("events", "");
  serve();
  enter();
  Client follower(port_);
  follower.send(request_text("GET", folder_path_ + "api/jobs/1/events", headers()));
  ASSERT_TRUE(follower.read_until("retry:"));
  on_thread([&] { view_->stop(); });
  EXPECT_THAT(follower.rest(), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace autotuned::daemon
