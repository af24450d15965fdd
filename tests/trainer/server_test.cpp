// SPDX-License-Identifier: Apache-2.0
// The protocol, over a socket.
#include "trainer/server.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <thread>

#include "tests/places.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/answers.hpp"
#include "trainer/job/settings/supported_knobs.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::chrono::seconds kLimit{60};

// A server in a thread of its own, and the session's end of the socket.
class Session {
 public:
  Session() : Session(value_of(socket_pair())) {}
  ~Session() {
    channel_ = FrameChannel(Descriptor());  // closes
    if (thread_.joinable()) thread_.join();
  }

  void send(const Json& frame) { EXPECT_TRUE(channel_.send(frame)); }
  Json receive() { return value_of(channel_.receive(kLimit)); }

  // The frame that answers; progress frames are kept.
  Json ask(const std::string& name, Json fields = Json::object()) {
    fields["request"] = name;
    fields["id"] = ++id_;
    send(fields);
    for (;;) {
      Json frame = receive();
      EXPECT_EQ(member(frame, "id"), id_);
      if (!frame.contains("progress")) return frame;
      progress_.push_back(frame["progress"]);
    }
  }
  Json ok(const std::string& name, Json fields = Json::object()) {
    const Json frame = ask(name, std::move(fields));
    EXPECT_TRUE(frame.contains("ok")) << frame.dump();
    return member(frame, "ok");
  }
  std::string error_kind(const std::string& name, Json fields = Json::object()) {
    const Json frame = ask(name, std::move(fields));
    EXPECT_TRUE(frame.contains("error")) << frame.dump();
    return get_string(member(frame, "error"), "kind").value_or("");
  }
  Json load(const recipes::Recipe& recipe) {
    return ok("load",
              {{"recipe", recipe.to_json()}, {"configuration", starting(recipe).to_json()}});
  }
  // The server's last word, when it has ended.
  bool was_stopped() {
    thread_.join();
    return was_stopped_;
  }
  [[nodiscard]] const Json& hello() const { return hello_; }
  [[nodiscard]] const std::vector<Json>& progress() const { return progress_; }

 private:
  explicit Session(SocketPair sockets)
      : channel_(std::move(sockets.ours)),
        thread_([this, theirs = std::move(sockets.theirs)]() mutable {
          Server server(FrameChannel(std::move(theirs)), test_machine(), cpu_only());
          was_stopped_ = server.serve();
        }) {
    hello_ = member(receive(), "hello");
  }

  FrameChannel channel_;
  std::int64_t id_ = 0;
  bool was_stopped_ = false;
  Json hello_;
  std::vector<Json> progress_;
  std::thread thread_;
};

TEST(Server, SaysHelloAndStops) {
  Session session;
  EXPECT_EQ(session.hello()["protocol"], 1);
  EXPECT_EQ(session.hello()["libtorch"], "2.11.0");
  EXPECT_EQ(session.hello()["devices"], Json::array({"cpu"}));
  EXPECT_EQ(session.hello()["device_uuids"], Json::array());
  EXPECT_EQ(session.hello()["cupti_reason"], "not for tests");
  EXPECT_THAT(session.hello()["knobs"], Contains("batch_size"));
  EXPECT_EQ(session.ok("stop"), Json::object());
  EXPECT_TRUE(session.was_stopped());
}

// Also where nothing is trained.
TEST(Server, TellsOfFilesThatOthersStandInFor) {
  const Folder folder;
  const auto fixtures = tests::source_folder() / "tests/trainer/input/data";
  for (const char* name : {"420_37x51.jpg", "444_37x51.jpg"})
    std::filesystem::copy_file(fixtures / name, folder / name);
  const std::filesystem::path damaged = folder / "420_37x51.jpg";
  std::filesystem::resize_file(damaged, std::filesystem::file_size(damaged) * 9 / 10);
  recipes::Recipe recipe = small_recipe();
  recipe.evaluation.reset();
  recipe.data = {"jpeg_files",
                 {{"files", (folder / "*.jpg").string()},
                  {"repeat_to", 100},
                  {"labels", "random"},
                  {"classes", 4},
                  {"on_error", "skip"}}};
  recipe.input = {{"decode_jpeg", Json::object()},
                  {"random_crop", {{"size", 8}}},
                  {"to_float", Json::object()}};
  Session session;
  session.load(recipe);
  EXPECT_TRUE(session.progress().empty());  // its header is right
  session.ok("run", {{"minimum_steps", 3}});
  ASSERT_EQ(session.progress().size(), 1U);
  EXPECT_EQ(session.progress()[0]["damaged"]["file"], damaged.string());
  EXPECT_EQ(session.progress()[0]["damaged"]["files"], 1);
  session.ok("run", {{"minimum_steps", 3}});
  EXPECT_EQ(session.progress().size(), 1U);
}

// Every knob of the table is obeyed, and the other way round.
TEST(Server, ObeysTheKnobsOfTheTable) {
  std::vector<std::string> names = supported_knobs();
  std::erase(names, "env.*");
  std::vector<std::string> table;
  for (const recipes::Knob& knob : recipes::knobs_of(test_machine()))
    table.push_back(knob.name);
  EXPECT_EQ(names, table);
}

TEST(Server, EndsWhenTheSessionDoes) {
  bool was_stopped = true;
  {
    auto sockets = value_of(socket_pair());
    std::thread server([&was_stopped, theirs = std::move(sockets.theirs)]() mutable {
      Server one(FrameChannel(std::move(theirs)), test_machine(), cpu_only());
      was_stopped = one.serve();
    });
    sockets.ours.reset();
    server.join();
  }
  EXPECT_FALSE(was_stopped);
}

TEST(Server, TimesCheckpoints) {
  const Folder folder;
  Session session;
  session.load(small_recipe());
  const Json profile =
      session.ok("profile", {{"count", 1}, {"checkpoint_path", (folder / "timed").string()}});
  EXPECT_GT(profile["metrics"]["checkpoint.write_ns"], 0.0);
  EXPECT_EQ(session.error_kind("run", {{"minimum_ns", 0},
                                       {"checkpoint_path", (folder / "missing" / "c").string()}}),
            "not_found");
}

TEST(Server, MeasuresChecksAndTrains) {
  const Folder folder;
  Session session;
  const recipes::Recipe recipe = small_recipe();
  EXPECT_EQ(session.load(recipe)["train_samples"], 200);

  const Json block = session.ok("run", {{"minimum_ns", 1'000'000}, {"warmup_steps", 2}});
  EXPECT_GE(block["duration_ns"], 1'000'000);
  EXPECT_GE(block["steps"], 1);

  const Json changed = session.ok(
      "prepare",
      {{"configuration", with(starting(recipe), "loader.workers", std::int64_t{1}).to_json()}});
  EXPECT_EQ(changed["changed"], Json::array({"loader.workers"}));

  session.ok("restore", {{"name", "initial"}});
  EXPECT_EQ(session.ok("steps", {{"count", 4}})["losses"].size(), 4U);
  EXPECT_GT(session.ok("checkpoint", {{"name", "a"}})["bytes"], 0);
  const std::string file = (folder / "a").string();
  session.ok("export", {{"name", "a"}, {"path", file}});
  session.ok("import", {{"name", "b"}, {"path", file}});
  const Json comparison =
      session.ok("compare", {{"base", "initial"}, {"reference", "a"}, {"candidate", "b"}});
  EXPECT_EQ(comparison["equal"], true);
  EXPECT_EQ(comparison["finite"], true);
  EXPECT_EQ(comparison["parameters"].size(), 4U);
  session.ok("drop", {{"name", "b"}});
  EXPECT_EQ(session.ok("digest")["sha256"].get<std::string>().size(), 64U);

  const Json trained = session.ok("train", {{"configuration", starting(recipe).to_json()},
                                            {"checkpoint_path", (folder / "c").string()},
                                            {"resume", true},
                                            {"checkpoint_every_ns", 600'000'000'000},
                                            {"progress_every_ns", 0}});
  EXPECT_EQ(trained["steps"], 20);
  EXPECT_EQ(trained["cancelled"], false);
  EXPECT_GT(trained["test_accuracy"], 0.5);
  EXPECT_GT(session.ok("save", {{"path", (folder / "model.pt").string()}})["bytes"], 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "model.pt"));
}

TEST(Server, ProfilesInTheProtocolsShape) {
  const Folder folder;
  Session session;
  session.load(small_recipe());
  const Json profile = session.ok(
      "profile", {{"count", 5}, {"warmup_steps", 1}, {"path", (folder / "profile.json").string()}});
  EXPECT_EQ(profile["metrics"]["step.samples"], 20.0);
  ASSERT_FALSE(profile["spans"].empty());
  EXPECT_EQ(profile["spans"][0]["name"], "step");
  EXPECT_EQ(profile["spans"][0]["count"], 5);
  ASSERT_FALSE(profile["operators"].empty());
  EXPECT_LE(profile["operators"].size(), 200U);
  for (const char* field : {"name", "calls", "total_ns", "self_ns"}) {
    EXPECT_TRUE(profile["operators"][0].contains(field)) << field;
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "profile.json"));
}

TEST(Server, AnswersNonsenseWithErrors) {
  Session session;
  EXPECT_EQ(session.error_kind("run"), "invalid");  // nothing is loaded
  EXPECT_EQ(session.error_kind("load"), "invalid");
  session.load(small_recipe());
  EXPECT_EQ(session.error_kind("dance"), "invalid");
  for (const char* request : {"steps", "profile"}) {
    const Json error = member(session.ask(request), "error");
    EXPECT_EQ(get_string(error, "kind").value_or(""), "invalid");
    EXPECT_THAT(get_string(error, "what").value_or(""), HasSubstr("is missing"));
  }
  EXPECT_EQ(session.error_kind("steps", {{"count", "many"}}), "invalid");
  EXPECT_EQ(session.error_kind("run", {{"minimum_steps", -1}}), "invalid");
  EXPECT_EQ(session.error_kind("run", {{"reuse", 1}}), "invalid");
  EXPECT_EQ(session.error_kind("run", {{"reuse", "everything"}}), "unsupported");
  EXPECT_EQ(session.error_kind("profile", {{"count", 0}}), "invalid");
  EXPECT_EQ(session.error_kind("prepare", {{"configuration", 5}}), "invalid");
  EXPECT_EQ(session.error_kind("restore", {{"name", "nothing"}}), "not_found");
  EXPECT_EQ(session.error_kind("save"), "invalid");
  session.send({{"id", 99}});
  EXPECT_TRUE(session.receive().contains("error"));
  session.ok("steps", {{"count", 1}});
}

TEST(Server, CancelEndsTheRequestInProgress) {
  const Folder folder;
  Session session;
  session.load(small_recipe());
  session.send({{"request", "cancel"}});  // too early: there is nothing to cancel
  session.send({{"id", 50}, {"request", "run"}, {"minimum_ns", std::int64_t{3'600'000'000'000}}});
  session.send({{"request", "cancel"}});
  const Json frame = session.receive();
  EXPECT_EQ(frame["id"], 50);
  EXPECT_EQ(member(frame, "error")["kind"], "cancelled");

  recipes::Recipe recipe = small_recipe();
  recipe.train.epochs = 1'000'000;
  session.load(recipe);
  session.send({{"id", 51},
                {"request", "train"},
                {"configuration", starting(recipe).to_json()},
                {"checkpoint_path", (folder / "c").string()},
                {"resume", false}});
  session.send({{"request", "cancel"}});
  Json answer;
  do
    answer = session.receive();
  while (answer.contains("progress"));
  EXPECT_EQ(answer["ok"]["cancelled"], true);
  EXPECT_TRUE(std::filesystem::exists(folder / "c"));
}

TEST(Server, AnswersInOrderWhatArrivesDuringARequest) {
  Session session;
  session.load(small_recipe());
  session.send({{"id", 60}, {"request", "run"}, {"minimum_ns", 50'000'000}});
  session.send({{"id", 61}, {"request", "digest"}});
  EXPECT_EQ(session.receive()["id"], 60);
  EXPECT_EQ(session.receive()["id"], 61);
}

TEST(Server, LeavesAHungUpSessionsTraining) {
  recipes::Recipe recipe = small_recipe();
  recipe.train.epochs = 1'000'000;
  const Folder folder;
  Session session;
  session.load(recipe);
  session.send({{"id", 1},
                {"request", "train"},
                {"configuration", starting(recipe).to_json()},
                {"checkpoint_path", (folder / "c").string()},
                {"resume", false}});
  // The destructor closes the socket and waits for the server.
}

TEST(Server, AnswersWithTheBestEvaluationIfThereIsOne) {
  TrainingSummary summary;
  EXPECT_FALSE(to_json(summary, JobFacts()).contains("best_evaluation"));
  summary.best_evaluation = {{"epoch", 6}, {"accuracy", 0.5}};
  EXPECT_EQ(to_json(summary, JobFacts()).at("best_evaluation"), summary.best_evaluation);
}

}  // namespace
}  // namespace autotuned::trainer
