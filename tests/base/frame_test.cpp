// SPDX-License-Identifier: Apache-2.0
#include "base/frame.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

namespace autotuned {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kForEver{-1};

std::string header(std::size_t length) {
  std::string bytes;
  for (unsigned i = 0; i < 4; ++i)
    bytes += static_cast<char>((length >> (8 * i)) & 0xffU);
  return bytes;
}

std::string frame(std::string_view body) {
  return header(body.size()) + std::string(body);
}

// A channel, and the other end of it as raw bytes.
class FrameTest : public testing::Test {
 protected:
  FrameTest() : FrameTest(socket_pair().value()) {}
  explicit FrameTest(SocketPair pair)
      : channel_(std::move(pair.ours)), raw_(std::move(pair.theirs)) {}

  void write_raw(std::string_view bytes) const {
    ASSERT_EQ(::send(raw_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  FrameChannel channel_;
  Descriptor raw_;
};

TEST_F(FrameTest, TravelsAsLengthAndText) {
  ASSERT_TRUE(channel_.send(Json{{"id", 7}}).has_value());
  std::string bytes(100, '\0');
  const ssize_t count = ::recv(raw_.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(static_cast<std::size_t>(count));
  EXPECT_EQ(bytes, std::string("\x08\0\0\0{\"id\":7}", 12));
}

TEST_F(FrameTest, ArrivesWhereverItIsSplit) {
  const std::string bytes = frame(R"({"a":1})") + frame(R"(["b"])");
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      std::string got;
      const auto take_all = [&] {
        while (true) {
          const Result<Json> value = channel_.receive(0ns);
          if (!value) {
            ASSERT_EQ(value.error().kind, ErrorKind::timeout);
            return;
          }
          got += to_line(*value);
        }
      };
      write_raw(bytes.substr(0, first));
      take_all();
      write_raw(bytes.substr(first, second - first));
      take_all();
      write_raw(bytes.substr(second));
      take_all();
      ASSERT_EQ(got, R"({"a":1}["b"])") << first << " " << second;
    }
  }
}

TEST_F(FrameTest, ABufferedFrameIsSeenWithoutPolling) {
  EXPECT_FALSE(channel_.has_buffered_frame());
  write_raw(frame("1") + frame("2") + header(1));
  EXPECT_EQ(*channel_.receive(kForEver), Json(1));
  EXPECT_TRUE(channel_.has_buffered_frame());
  EXPECT_EQ(*channel_.receive(0ns), Json(2));
  EXPECT_FALSE(channel_.has_buffered_frame());
}

TEST_F(FrameTest, TheLargestFrameTravels) {
  FrameChannel other(std::move(raw_));
  const Json largest = std::string(kMaxFrameBytes - 2, 'x');  // and two quotes
  std::jthread sender([&] { EXPECT_TRUE(other.send(largest).has_value()); });
  const Result<Json> got = channel_.receive(kForEver);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(*got, largest);
}

TEST_F(FrameTest, AValueThatIsTooLongIsNotSentAndHarmsNothing) {
  const Result<void> sent = channel_.send(std::string(kMaxFrameBytes - 1, 'x'));
  ASSERT_FALSE(sent.has_value());
  EXPECT_EQ(sent.error().kind, ErrorKind::invalid);
  ASSERT_TRUE(channel_.send(1).has_value());
  FrameChannel other(std::move(raw_));
  EXPECT_EQ(*other.receive(kForEver), Json(1));
}

TEST_F(FrameTest, HostileLengthsAreRefusedBeforeTheBodyComes) {
  for (const std::size_t length :
       {kMaxFrameBytes + 1, std::size_t{0x7fffffff}, std::size_t{0xffffffff}}) {
    SocketPair pair = socket_pair().value();
    FrameChannel channel(std::move(pair.ours));
    ASSERT_EQ(::write(pair.theirs.get(), header(length).data(), 4), 4);
    const Result<Json> got = channel.receive(kForEver);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().kind, ErrorKind::invalid);
    EXPECT_THAT(got.error().what, HasSubstr(std::to_string(length)));
  }
}

// The memory for a frame is taken as its bytes arrive, so an announcement alone costs nothing.
TEST_F(FrameTest, TheLongestLengthAloneIsOnlyWaitedFor) {
  write_raw(header(kMaxFrameBytes));
  EXPECT_EQ(channel_.receive(0ns).error().kind, ErrorKind::timeout);
  EXPECT_FALSE(channel_.has_buffered_frame());
}

TEST_F(FrameTest, WhatIsNotJsonFinishesTheChannel) {
  write_raw(frame("{oops}") + frame("1"));
  const Result<Json> first = channel_.receive(kForEver);
  ASSERT_FALSE(first.has_value());
  EXPECT_EQ(first.error().kind, ErrorKind::invalid);
  const Result<Json> again = channel_.receive(kForEver);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().what, first.error().what);
  EXPECT_EQ(channel_.send(1).error().kind, ErrorKind::invalid);
  EXPECT_FALSE(channel_.has_buffered_frame());
}

TEST_F(FrameTest, AnEmptyFrameIsNotJson) {
  write_raw(header(0));
  EXPECT_EQ(channel_.receive(kForEver).error().kind, ErrorKind::invalid);
}

TEST_F(FrameTest, NestingIsLimited) {
  write_raw(frame(std::string(1000, '[') + std::string(1000, ']')));
  EXPECT_EQ(channel_.receive(kForEver).error().kind, ErrorKind::invalid);
}

TEST_F(FrameTest, WhatWasSentBeforeTheEndIsStillReceived) {
  write_raw(frame("1") + frame("2"));
  raw_.reset();
  EXPECT_EQ(*channel_.receive(kForEver), Json(1));
  EXPECT_EQ(*channel_.receive(kForEver), Json(2));
  EXPECT_EQ(channel_.receive(kForEver).error().kind, ErrorKind::crashed);
  EXPECT_EQ(channel_.receive(0ns).error().kind, ErrorKind::crashed);
}

TEST_F(FrameTest, AnEndWithinAFrameIsSaidSo) {
  write_raw(frame("[1,2]").substr(0, 6));
  raw_.reset();
  const Result<Json> got = channel_.receive(kForEver);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().kind, ErrorKind::crashed);
  EXPECT_THAT(got.error().what, HasSubstr("middle of a frame"));
}

TEST_F(FrameTest, SendingToNobodyIsAnErrorAndNoSignal) {
  raw_.reset();
  EXPECT_EQ(channel_.send(1).error().kind, ErrorKind::crashed);
  EXPECT_EQ(channel_.receive(0ns).error().kind, ErrorKind::crashed);
}

TEST_F(FrameTest, ATimeoutCanBeRepeated) {
  write_raw(frame("[1]").substr(0, 5));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(channel_.receive(1ms).error().kind, ErrorKind::timeout);
  }
  write_raw(frame("[1]").substr(5));
  EXPECT_EQ(*channel_.receive(kForEver), Json::array({1}));
}

TEST_F(FrameTest, TheLongestTimeoutDoesNotOverflow) {
  std::jthread sender([&] { write_raw(frame("1")); });
  EXPECT_EQ(*channel_.receive(std::chrono::nanoseconds::max()), Json(1));
}

TEST_F(FrameTest, SignalsDoNotDisturb) {
  struct sigaction before {};
  struct sigaction handler {};
  handler.sa_handler = [](int) {};  // without SA_RESTART, so that calls are interrupted
  ASSERT_EQ(::sigaction(SIGUSR1, &handler, &before), 0);
  const pthread_t self = ::pthread_self();
  FrameChannel other(std::move(raw_));
  const Json large = std::string(4 << 20, 'x');
  std::jthread peer([&] {
    for (int i = 0; i < 200; ++i)
      ::pthread_kill(self, SIGUSR1);
    EXPECT_TRUE(other.send(large).has_value());
    for (int i = 0; i < 200; ++i)
      ::pthread_kill(self, SIGUSR1);
    EXPECT_EQ(*other.receive(kForEver), large);
  });
  EXPECT_EQ(*channel_.receive(kForEver), large);
  EXPECT_TRUE(channel_.send(large).has_value());
  peer.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(FrameTest, BytesThatAreNotUtf8ArriveReplaced) {
  FrameChannel other(std::move(raw_));
  ASSERT_TRUE(channel_.send(Json{{"what", "bad \xff byte"}}).has_value());
  EXPECT_EQ((*other.receive(kForEver))["what"], "bad \xef\xbf\xbd byte");
}

TEST(Descriptor, OwnsAndMoves) {
  SocketPair pair = socket_pair().value();
  const int number = pair.ours.get();
  Descriptor moved = std::move(pair.ours);
  EXPECT_FALSE(pair.ours.is_open());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved.get(), number);
  moved.reset(number);  // the same again is not closed
  EXPECT_EQ(::write(number, "x", 1), 1);
  errno = EDOM;
  moved.reset();
  EXPECT_EQ(errno, EDOM);
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_EQ(Descriptor().get(), -1);
}

}  // namespace
}  // namespace autotuned
