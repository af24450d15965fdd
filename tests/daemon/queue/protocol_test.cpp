// SPDX-License-Identifier: Apache-2.0
// What a hostile client may send.
#include "daemon/queue/protocol.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "base/error_json.hpp"
#include "base/frame.hpp"
#include "tests/daemon/queue/submission_sample.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

std::string header(std::size_t length) {
  std::string text;
  for (int i = 0; i < 4; ++i)
    text += static_cast<char>((length >> (8 * i)) & 0xffU);
  return text;
}

Json submit_frame() {
  return {{"protocol", 1}, {"request", "submit"}, {"submission", sample_submission().to_json()}};
}

TEST(FrameDecoder, PutsPiecesTogether) {
  FrameDecoder decoder;
  const std::string bytes = encode_frame(R"({"a":1})") + encode_frame(R"({"b":2})");
  std::vector<Json> frames;
  for (const char byte : bytes) {
    decoder.feed({&byte, 1});
    const auto frame = decoder.next();
    ASSERT_TRUE(frame);
    if (!frame->is_null()) frames.push_back(*frame);
  }
  ASSERT_EQ(frames.size(), 2);
  EXPECT_EQ(frames[0].at("a"), 1);
  EXPECT_EQ(frames[1].at("b"), 2);
  EXPECT_FALSE(decoder.is_partial());
}

TEST(FrameDecoder, RefusesWhatIsTooLongBeforeItArrives) {
  for (const std::size_t length : {kMaxRequestBytes + 1, std::size_t{0xffffffff}}) {
    FrameDecoder decoder;
    decoder.feed(header(length));
    const auto frame = decoder.next();
    ASSERT_FALSE(frame);
    EXPECT_THAT(frame.error().message(), HasSubstr("are allowed"));
  }
  FrameDecoder decoder;
  decoder.feed(header(kMaxRequestBytes) + "{");
  EXPECT_TRUE(decoder.next()->is_null());
}

TEST(FrameDecoder, RefusesWhatIsNoObject) {
  std::string deep;
  for (int i = 0; i < 1000; ++i)
    deep += "{\"a\":";
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("1"),
        std::string("{} {}"), std::string("\0\0", 2), std::string("\"\xff\""),
        std::string(100'000, '['), deep}) {
    FrameDecoder decoder;
    decoder.feed(encode_frame(body));
    EXPECT_FALSE(decoder.next()) << body.substr(0, 20);
  }
}

TEST(Submission, SurvivesAsJson) {
  const auto read = Submission::from_json(sample_submission().to_json());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->to_json(), sample_submission().to_json());
}

TEST(Submission, TakesOverOnlyListedVariables) {
  for (const char* variable :
       {"LD_PRELOAD=/tmp/x.so", "LD_LIBRARY_PATH=/x", "HOME", "=x", "AUTOTUNED_PARENT_PID=1",
        "AUTOTUNED_JOB=other", "XDG_RUNTIME_DIR=/x", "AUTOTUNED_LOCKS=/x"}) {
    Submission submission = sample_submission();
    submission.environment = {variable};
    const auto read = Submission::from_json(submission.to_json());
    ASSERT_FALSE(read) << variable;
    EXPECT_THAT(read.error().message(), HasSubstr("environment"));
  }
  Submission submission = sample_submission();
  submission.environment = {"HOME=" + std::string(5000, 'x')};
  EXPECT_FALSE(Submission::from_json(submission.to_json()));
  submission.environment = {std::string("HOME=a\0b", 8)};
  EXPECT_FALSE(Submission::from_json(submission.to_json()));
}

TEST(Submission, RefusesRelativeAndEndlessPaths) {
  const auto refused = [](auto change) {
    Submission submission = sample_submission();
    change(submission);
    return !Submission::from_json(submission.to_json());
  };
  EXPECT_TRUE(refused([](Submission& s) { s.folder = "work"; }));
  EXPECT_TRUE(refused([](Submission& s) { s.folder = ""; }));
  EXPECT_TRUE(refused([](Submission& s) { s.folder = "/" + std::string(5000, 'x'); }));
  EXPECT_TRUE(refused([](Submission& s) { s.session.history = "history.db"; }));
  EXPECT_TRUE(refused([](Submission& s) { s.session.recipe.output_dir = "out"; }));
  EXPECT_TRUE(refused([](Submission& s) { s.session.plugin_folders = {"plugins"}; }));
  EXPECT_TRUE(refused([](Submission& s) { s.session.recipe.name = std::string(5000, 'x'); }));
  EXPECT_TRUE(refused([](Submission& s) { s.token = ""; }));
  EXPECT_TRUE(refused([](Submission& s) { s.device = std::string("a\0", 2); }));
  EXPECT_FALSE(refused([](Submission& /*unchanged*/) {}));
}

TEST(Request, IsReadByName) {
  const auto submitted = read_request(submit_frame());
  ASSERT_TRUE(submitted) << submitted.error().message();
  EXPECT_EQ(std::get<SubmitRequest>(*submitted).submission.session.recipe.name, "small");
  const auto attached =
      read_request({{"protocol", 1}, {"request", "attach"}, {"job", "7"}, {"skip", -5}});
  ASSERT_TRUE(attached);
  EXPECT_EQ(std::get<AttachRequest>(*attached).job, "7");
  EXPECT_EQ(std::get<AttachRequest>(*attached).skip, 0);
  EXPECT_TRUE(std::holds_alternative<StatusRequest>(
      *read_request({{"protocol", 1}, {"request", "status"}})));
}

TEST(Request, OfAnotherVersionIsRefused) {
  const auto read = read_request({{"protocol", 2}, {"request", "status"}});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::newer_version);
  EXPECT_THAT(read.error().message(), HasSubstr("protocol 1, this program speaks 2"));
}

TEST(Request, WithWrongFieldsIsRefused) {
  for (const Json& frame :
       std::vector<Json>{Json::object(),
                         {{"protocol", "1"}, {"request", "status"}},
                         {{"protocol", 1}},
                         {{"protocol", 1}, {"request", 1}},
                         {{"protocol", 1}, {"request", "format_disk"}},
                         {{"protocol", 1}, {"request", "attach"}},
                         {{"protocol", 1}, {"request", "attach"}, {"job", 1}, {"skip", 0}},
                         {{"protocol", 1}, {"request", "attach"}, {"job", "1"}, {"skip", 0.5}},
                         {{"protocol", 1}, {"request", "cancel"}, {"job", ""}},
                         {{"protocol", 1}, {"request", "submit"}},
                         {{"protocol", 1}, {"request", "submit"}, {"submission", "x"}}}) {
    EXPECT_FALSE(read_request(frame)) << frame.dump();
  }
}

// Every field of a submission replaced by everything that it is not.
TEST(Request, HostileSubmissionsAreRefusedOrHarmless) {
  const Json whole = submit_frame().flatten();
  for (const auto& [pointer, unused] : whole.items()) {
    for (const Json& value :
         std::vector<Json>{nullptr, true, -1, 1e300, "x", Json::array(), Json::object(),
                           std::numeric_limits<std::uint64_t>::max()}) {
      Json frame = submit_frame();
      frame[Json::json_pointer(pointer)] = value;
      static_cast<void>(read_request(frame));
    }
  }
}

TEST(ErrorAnswer, ArrivesAsItWas) {
  const Error error{ErrorKind::busy, "what", "where", "remedy"};
  const Error read = error_from_json(error_answer(error).at("error"));
  EXPECT_EQ(read.kind, ErrorKind::busy);
  EXPECT_EQ(read.message(), error.message());
}

}  // namespace
}  // namespace autotuned::daemon
