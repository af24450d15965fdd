// SPDX-License-Identifier: Apache-2.0
// Random and damaged input for the two readers that see bytes of other processes. The sanitizer
// builds are what gives these teeth.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/frame.hpp"
#include "base/json.hpp"

namespace autotuned {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kJsonAlphabet = "{}[]\",:\\ue0123456789.-+eEtrufalsn \n\x80\xff\x01";

std::string random_bytes(std::mt19937_64& random, std::size_t max_length) {
  std::string bytes(random() % (max_length + 1), '\0');
  const bool looks_like_json = random() % 2 == 0;
  for (char& byte : bytes) {
    byte = looks_like_json ? kJsonAlphabet[random() % kJsonAlphabet.size()]
                           : static_cast<char>(random());
  }
  return bytes;
}

Json random_json(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random());
    case 3:
      return static_cast<double>(static_cast<std::int64_t>(random())) / 1024;
    case 4:
      return random();
    case 5: {
      std::string text(random() % 8, '\0');
      for (char& character : text)
        character = static_cast<char>(random() % 128);
      return text;
    }
    case 6: {
      Json array = Json::array();
      for (auto left = random() % 4; left > 0; --left)
        array.push_back(random_json(random, depth - 1));
      return array;
    }
    default: {
      Json object = Json::object();
      for (auto left = random() % 4; left > 0; --left) {
        object[std::to_string(random() % 100)] = random_json(random, depth - 1);
      }
      return object;
    }
  }
}

void damage(std::mt19937_64& random, std::string& text) {
  for (auto left = 1 + random() % 3; left > 0 && !text.empty(); --left) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, 1 + random() % 4);
        break;
      case 2:
        text.insert(at, 1, kJsonAlphabet[random() % kJsonAlphabet.size()]);
        break;
      default:
        text.resize(at);
    }
  }
}

TEST(FuzzJson, ParsesOrRefusesAndNeverThrows) {
  std::mt19937_64 random(6);
  int refused = 0;
  constexpr int kRounds = 20'000;
  for (int i = 0; i < kRounds; ++i) {
    std::string text = random_bytes(random, 40);
    if (i % 2 == 0) {
      text = to_line(random_json(random, 5));
      damage(random, text);
    }
    const Result<Json> parsed = parse_json(text, "fuzz", 1000, 3);
    if (parsed) {
      // What was accepted can be written and read again.
      EXPECT_EQ(*parse_json(to_line(*parsed), "fuzz"), *parsed) << text;
    } else {
      EXPECT_EQ(parsed.error().kind, ErrorKind::invalid) << text;
      ++refused;
    }
  }
  EXPECT_GT(refused, kRounds / 10);
  EXPECT_LT(refused, kRounds);
}

TEST(FuzzJson, WhatWeWriteWeRead) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 5000; ++i) {
    const Json value = random_json(random, 6);
    const Result<Json> parsed = parse_json(to_line(value), "fuzz");
    ASSERT_TRUE(parsed.has_value()) << to_line(value);
    EXPECT_EQ(*parsed, value);
  }
}

TEST(FuzzFrame, AnyBytesInAnyPiecesAreSurvived) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 2000; ++i) {
    SocketPair pair = socket_pair().value();
    FrameChannel channel(std::move(pair.ours));
    std::string bytes;
    std::size_t whole_frames = 0;
    for (auto left = random() % 4; left > 0; --left) {
      const std::string body = to_line(random_json(random, 3));
      for (unsigned shift = 0; shift < 32; shift += 8) {
        bytes += static_cast<char>((body.size() >> shift) & 0xffU);
      }
      bytes += body;
      ++whole_frames;
    }
    const bool is_damaged = random() % 2 == 0;
    if (is_damaged) {
      bytes += random_bytes(random, 30);
      damage(random, bytes);
    }
    std::size_t received = 0;
    std::string_view rest = bytes;
    bool is_finished = false;
    const auto take_all = [&] {
      Result<Json> value = channel.receive(0ns);
      for (; value; value = channel.receive(0ns))
        ++received;
      is_finished = value.error().kind != ErrorKind::timeout;
    };
    while (!rest.empty()) {
      const std::size_t length = std::min<std::size_t>(1 + random() % 12, rest.size());
      ASSERT_EQ(::send(pair.theirs.get(), rest.data(), length, MSG_NOSIGNAL),
                static_cast<ssize_t>(length));
      rest.remove_prefix(length);
      take_all();
      if (is_finished) {
        EXPECT_TRUE(is_damaged);
        EXPECT_FALSE(channel.has_buffered_frame());
      }
    }
    if (!is_damaged) {
      EXPECT_EQ(received, whole_frames);
    }
    pair.theirs.reset();
    take_all();
    EXPECT_TRUE(is_finished);
  }
}

}  // namespace
}  // namespace autotuned
