// SPDX-License-Identifier: Apache-2.0
// A daemon with small limits, and clients that meet them.
#include "daemon/queue/server.hpp"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/frame.hpp"
#include "daemon/queue/protocol.hpp"
#include "daemon/queue/socket.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/queue/submission_sample.hpp"

namespace autotuned::daemon {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// How clients reach the daemon.
class Door {
 public:
  explicit Door(std::filesystem::path socket) : socket_(std::move(socket)) {}

  // Waits until somebody serves there.
  [[nodiscard]] FrameChannel enter() const {
    for (;;) {
      auto connected = connect_to_daemon(socket_);
      if (connected && *connected) return FrameChannel(std::move(**connected));
      std::this_thread::sleep_for(1ms);
    }
  }
  // The whole answer.
  [[nodiscard]] Json ask(Json request) const {
    FrameChannel channel = enter();
    request["protocol"] = kDaemonProtocol;
    EXPECT_TRUE(channel.send(request));
    return channel.receive(20s).value_or(Json());
  }

 private:
  std::filesystem::path socket_;
};

// Serves here while `client` asks on a thread of its own; then it is stopped.
void serve_for(const DaemonLimits& limits, const std::function<void(const Door&)>& client) {
  const TemporaryFolder folder;
  const Door door(folder / "s");
  std::thread asking([&] {
    client(door);
    static_cast<void>(door.ask({{"request", "stop"}}));
  });
  const auto served = serve(folder / "s", folder / "d", limits);
  EXPECT_TRUE(served) << served.error().message();
  asking.join();
}

// What arrives until the daemon closes.
std::string rest_of(const FrameChannel& channel) {
  std::string text(4096, '\0');
  std::size_t size = 0;
  while (wait_readable(channel.descriptor(), 20s)) {
    const ssize_t count =
        ::recv(channel.descriptor(), text.data() + size, text.size() - size, MSG_DONTWAIT);
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

TEST(Server, TakesNoRunWhenItUsesTooMuchMemory) {
  serve_for({.resident_bytes = 1}, [](const Door& door) {
    const Json refused = door.ask(
        {{"request", "submit"}, {"submission", sample_submission("memory-test").to_json()}});
    EXPECT_EQ(member(member(refused, "error"), "kind"), "out_of_memory") << refused.dump();
    const Json status = door.ask({{"request", "status"}});
    EXPECT_TRUE(member(member(status, "ok"), "jobs").empty()) << status.dump();
  });
}

TEST(Server, DropsWhoAsksNothing) {
  serve_for({.connection = {.patience = 50ms}}, [](const Door& door) {
    const FrameChannel silent = door.enter();
    EXPECT_EQ(rest_of(silent), "");
    const FrameChannel half = door.enter();
    EXPECT_EQ(::send(half.descriptor(), "\xff\0\0\0{", 5, MSG_NOSIGNAL), 5);
    EXPECT_EQ(rest_of(half), "");
    const Json status = door.ask({{"request", "status"}});
    EXPECT_EQ(status.at("ok").at("counters").at("connections").at("dropped"), 2);
  });
}

TEST(Server, DropsWhoReadsNothing) {
  serve_for({.connection = {.patience = 50ms}}, [](const Door& door) {
    const FrameChannel deaf = door.enter();
    const std::string question = encode_frame(R"({"protocol":1,"request":"status"})");
    // Asks as long as it may: the answers fill every buffer on the way.
    while (::send(deaf.descriptor(), question.data(), question.size(), MSG_NOSIGNAL) > 0) {
    }
    const Json status = door.ask({{"request", "status"}});
    EXPECT_EQ(status.at("ok").at("counters").at("connections").at("dropped"), 1);
  });
}

// Half requests of many clients are held together.
TEST(Server, HoldsABoundedNumberOfBytes) {
  serve_for({.received_bytes = 300'000}, [](const Door& door) {
    const std::string half = encode_frame(std::string(200'000, 'x')).substr(0, 100'000);
    std::vector<FrameChannel> clients;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(door.enter());
      std::string_view rest = half;
      while (!rest.empty()) {
        const ssize_t count =
            ::send(clients.back().descriptor(), rest.data(), rest.size(), MSG_NOSIGNAL);
        if (count <= 0) break;
        rest.remove_prefix(static_cast<std::size_t>(count));
      }
    }
    // One of them has brought too much, and is told so.
    std::vector<pollfd> waited;
    for (const FrameChannel& client : clients)
      waited.push_back({.fd = client.descriptor(), .events = POLLIN, .revents = 0});
    ASSERT_EQ(::poll(waited.data(), waited.size(), 20'000), 1);
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (waited[i].revents == 0) continue;
      EXPECT_THAT(rest_of(clients[i]), HasSubstr("more than the daemon holds for all of them"));
    }
    // What the others have sent goes with them.
    clients.clear();
    const auto connected = [&] {
      return door.ask({{"request", "status"}}).at("ok").at("connections").get<int>();
    };
    while (connected() > 1)
      std::this_thread::sleep_for(1ms);
    const FrameChannel again = door.enter();
    EXPECT_EQ(::send(again.descriptor(), half.data(), half.size(), MSG_NOSIGNAL), 100'000);
    const Json status = door.ask({{"request", "status"}});
    EXPECT_EQ(status.at("ok").at("counters").at("connections").at("dropped"), 1);
  });
}

}  // namespace
}  // namespace autotuned::daemon
