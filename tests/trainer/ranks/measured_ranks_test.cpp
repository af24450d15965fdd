// SPDX-License-Identifier: Apache-2.0
// Blocks, checks and profiles of several ranks by the real trainer, and what becomes of them when a rank fails.
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <thread>
#include <utility>

#include "base/trial.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "profiler/analysis/profile.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/daemon/trainers/fake_session.hpp"
#include "tests/trainer/ranks/ranks_scene.hpp"

namespace autotuned::trainer {
namespace {

using daemon::TrainerClient;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

constexpr std::int64_t kAnHour = 3'600'000'000'000;

// Leaves a process so much of its address space, for good.
void limit_memory(pid_t process, std::uint64_t more_bytes) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::uint64_t pages = 0;
  file >> pages;
  rlimit limit{};
  ASSERT_EQ(::prlimit(process, RLIMIT_AS, nullptr, &limit), 0);
  limit.rlim_cur = pages * 4096 + more_bytes;
  ASSERT_EQ(::prlimit(process, RLIMIT_AS, &limit, nullptr), 0);
}

class MeasuredRanks : public SeveralRanks {
 protected:
  daemon::TrainerBackendSpec spec_of(const recipes::Recipe& recipe) const {
    daemon::TrainerBackendSpec spec;
    spec.recipe = recipe;
    spec.knobs = recipes::with_ranks(recipes::knobs_of(test_machine()), recipe.train.ranks);
    spec.trainer = tests::build_folder() / "bin/autotuned-trainer";
    spec.folder = folder_;
    return spec;
  }
  static Json ask(TrainerClient& client, const std::string& name, Json fields = Json::object()) {
    return value_of(client.request(name, std::move(fields), kLimit));
  }
  static Block block(TrainerClient& client, Json fields) {
    return value_of(Block::from_json(ask(client, "run", std::move(fields))));
  }
  // From the initial state, under a configuration; kept as `name`.
  static Json checked(TrainerClient& client, const Configuration& configuration,
                      const std::string& name) {
    ask(client, "prepare", {{"configuration", configuration.to_json()}});
    (void)block(client, {{"minimum_steps", 2}});
    ask(client, "restore", {{"name", "initial"}});
    const Json steps = ask(client, "check_steps",
                           {{"count", 4}, {"crosses_epoch", false}, {"outputs_before", false}});
    ask(client, "checkpoint", {{"name", name}});
    return steps;
  }
};

TEST_F(MeasuredRanks, ABlockIsThatOfAllOfThem) {
  TrainerClient client = start(recipe(2));
  const Json json = ask(client, "run", {{"minimum_ns", 20'000'000}});
  const Block all = value_of(Block::from_json(json));
  EXPECT_GE(all.duration_ns, 20'000'000);
  EXPECT_EQ(all.samples, all.steps * 20 * 2);
  ASSERT_THAT(json.at("ranks"), SizeIs(2));
  std::int64_t slowest = 0;
  std::int64_t cpu_ns = 0;
  std::int64_t memory = 0;
  for (const Json& rank : json.at("ranks")) {
    slowest = std::max(slowest, get_integer(rank, "duration_ns").value_or(0));
    cpu_ns += get_integer(rank, "cpu_ns").value_or(0);
    memory += get_integer(rank, "peak_host_memory_bytes").value_or(0);
  }
  EXPECT_EQ(all.duration_ns, slowest);
  EXPECT_EQ(all.cpu_ns, cpu_ns);
  EXPECT_EQ(all.peak_host_memory_bytes, memory);
  EXPECT_EQ(block(client, {{"minimum_steps", 7}, {"warmup_steps", 2}}).steps, 7);
  const std::string checkpoint = (folder_ / "timed").string();
  EXPECT_GE(block(client, {{"minimum_steps", 2}, {"checkpoint_path", checkpoint}}).steps, 2);
  EXPECT_FALSE(std::filesystem::exists(checkpoint));
  // Loaders that work ahead, and batches that are kept.
  Configuration workers = starting(recipe(2));
  workers.set("loader.workers", std::int64_t{1});
  ask(client, "prepare", {{"configuration", workers.to_json()}});
  EXPECT_GE(block(client, {{"minimum_ns", 20'000'000}}).duration_ns, 20'000'000);
  EXPECT_GE(block(client, {{"minimum_ns", 1'000'000}, {"reuse", "device_batch"}}).steps, 1);
}

TEST_F(MeasuredRanks, TellWhatASwitchTookOnEach) {
  TrainerClient client = start(recipe(3));
  const Configuration other = with(starting(recipe(3)), "optimizer.set_to_none", false);
  const Json switched = ask(client, "prepare", {{"configuration", other.to_json()}});
  EXPECT_EQ(switched.at("changed"), Json::array({"optimizer.set_to_none"}));
  ASSERT_THAT(switched.at("ranks_ns"), SizeIs(3));
  std::int64_t slowest = 0;
  for (const Json& rank : switched.at("ranks_ns")) {
    EXPECT_GT(rank, 0);
    slowest = std::max(slowest, rank.get<std::int64_t>());
  }
  EXPECT_LE(switched.at("switch_ns"), slowest);
  EXPECT_THAT(switched, SizeIs(3)) << "nothing that is between ranks";
}

// What all refuse leaves them as they are.
TEST_F(MeasuredRanks, GoOnAfterARefusal) {
  TrainerClient client = start(recipe(2));
  const std::vector<pid_t> others = children_of(client.pid());
  const auto refused = client.request("run", {{"minimum_ns", 1}, {"reuse", "host_batch"}}, kLimit);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  const auto unknown = client.request("restore", {{"name", "nothing"}}, kLimit);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::not_found);
  EXPECT_EQ(block(client, {{"minimum_steps", 3}}).steps, 3);
  EXPECT_EQ(children_of(client.pid()), others);
}

TEST_F(MeasuredRanks, RepeatTheirStepsAndKnowWhatChangesThem) {
  TrainerClient client = start(recipe(2));
  const Configuration begin = starting(recipe(2));
  const Json reference = checked(client, begin, "reference");
  EXPECT_THAT(parameters_of(reference), SizeIs(64));
  EXPECT_THAT(reference.at("losses"), SizeIs(4));
  EXPECT_THAT(reference.at("inputs"), SizeIs(4));
  const auto compared = [&] {
    return ask(client, "compare",
               {{"base", "initial"}, {"reference", "reference"}, {"candidate", "candidate"}});
  };
  // With two ranks the sums are the same in any bucket.
  Configuration other = with(begin, "ddp.bucket_cap_mb", std::int64_t{1});
  other.set("ddp.gradient_as_bucket_view", true);
  const Json same = checked(client, other, "candidate");
  EXPECT_EQ(parameters_of(same), parameters_of(reference));
  EXPECT_EQ(same.at("losses"), reference.at("losses"));
  EXPECT_EQ(compared().at("equal"), true);
  const Json rounded = checked(client, with(begin, "ddp.comm_hook", "bf16"), "candidate");
  EXPECT_NE(parameters_of(rounded), parameters_of(reference));
  EXPECT_THAT(parameters_of(rounded), SizeIs(64)) << "rounded alike on both";
  EXPECT_EQ(compared().at("equal"), false);

  // By a file, as another trainer gets it, and from a later place.
  const std::string file = (folder_ / "exchanged").string();
  ask(client, "export", {{"name", "reference"}, {"path", file}});
  ask(client, "import", {{"name", "candidate"}, {"path", file}});
  EXPECT_EQ(compared().at("equal"), true);
  const Json place = ask(client, "place");
  ask(client, "restore", {{"name", "initial"}, {"place", place}});
  EXPECT_EQ(ask(client, "place"), place);
}

TEST_F(MeasuredRanks, AreProfiledTogether) {
  TrainerClient client = start(recipe(2));
  const Json profile = ask(client, "profile",
                           {{"count", 5},
                            {"warmup_steps", 2},
                            {"checkpoint_path", (folder_ / "timed").string()},
                            {"path", (folder_ / "profile.json").string()}});
  const double exposed = get_number(profile.at("metrics"), "ranks.exposed_ratio").value_or(-1.0);
  EXPECT_GE(exposed, 0.0);
  EXPECT_LE(exposed, 1.0);
  EXPECT_EQ(profile.at("metrics").at("step.samples"), 20.0) << "of a rank";
  EXPECT_GE(profile.at("metrics").at("ranks.behind_ratio"), 0.0);
  EXPECT_LE(profile.at("metrics").at("ranks.behind_ratio"), 1.0 - exposed);
  EXPECT_LE(profile.at("metrics").at("ranks.slowest"), 1.0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "profile.json"));
  const std::filesystem::path trace = folder_ / "trace.json.gz";
  EXPECT_EQ(
      ask(client, "trace", {{"path", trace.string()}, {"active", 2}, {"warmup", 1}}).at("steps"),
      2);
  EXPECT_TRUE(std::filesystem::exists(trace));
}

// Stops a process and lets it go on, half of the time each.
class Brake {
 public:
  explicit Brake(pid_t process)
      : thread_([process](const std::stop_token& over) {
          while (!over.stop_requested()) {
            ::kill(process, SIGSTOP);
            std::this_thread::sleep_for(kPhase);
            ::kill(process, SIGCONT);
            std::this_thread::sleep_for(kPhase);
          }
        }) {}

 private:
  static constexpr std::chrono::milliseconds kPhase{30};
  std::jthread thread_;
};

// The one that is waited for, and the ones that wait.
TEST_F(MeasuredRanks, TheirTracesTellWhoIsSlow) {
  recipes::Recipe wide = small_cnn_recipe();
  wide.train.ranks = 2;
  wide.train.batch_size = 500;
  wide.data.parameters["samples"] = 4'000;
  TrainerClient client = start(wide);
  const std::vector<pid_t> others = children_of(client.pid());
  ASSERT_THAT(others, SizeIs(1));
  const std::vector<std::string> files = {(folder_ / "a.pt.trace.json.gz").string(),
                                          (folder_ / "a.rank1.pt.trace.json.gz").string()};
  Json written;
  Json profile;
  {
    const Brake brake(others.front());
    profile = ask(client, "profile", {{"count", 20}, {"warmup_steps", 3}, {"path", ""}});
    written = ask(client, "trace",
                  {{"path", files[0]},
                   {"rank_paths", Json::array({files[1]})},
                   {"active", 20},
                   {"warmup", 3},
                   {"shapes", true}});
  }
  EXPECT_EQ(profile.at("metrics").at("ranks.slowest"), 1.0);
  EXPECT_GT(profile.at("metrics").at("ranks.behind_ratio"), 0.1);
  EXPECT_EQ(written.at("steps"), 20);
  std::vector<analysis::TraceProfile> profiles;
  std::int64_t events = 0;
  for (const std::string& file : files) {
    const auto trace = traces::read_trace(file);
    ASSERT_TRUE(trace) << trace.error().message();
    EXPECT_EQ(trace->rank, static_cast<int>(profiles.size()));
    EXPECT_EQ(trace->world_size, 2);
    EXPECT_EQ(trace->backend, "gloo");
    events += std::ssize(trace->events.kind);
    profiles.push_back(analysis::profile_of(*trace, analysis::Depth::views));
  }
  EXPECT_GE(events, get_integer(written, "events").value_or(0)) << "of both";
  const analysis::Communication& first = profiles[0].communication;
  const analysis::Communication& second = profiles[1].communication;
  ASSERT_GT(first.window_ns, 0);
  EXPECT_GT(first.exposed_ns(), first.window_ns / 8) << "it waits";
  EXPECT_GT(first.exposed_ns(), second.exposed_ns()) << "for the other";
  const auto table = analysis::collective_table({&first, &second});
  ASSERT_FALSE(table.empty());
  EXPECT_EQ(table[0].name, "gloo:all_reduce");
  EXPECT_THAT(table, SizeIs(1)) << "what is agreed on beside the training is left out";
  EXPECT_GE(table[0].calls, 20);
  EXPECT_GT(table[0].waiting_ns, table[0].transfer_ns);
  EXPECT_EQ(table[0].bytes, 20 * get_integer(facts_, "parameter_bytes").value_or(0));
}

TEST_F(MeasuredRanks, StopTogetherWhenABlockIsCancelled) {
  daemon::CancelSwitch cancel;
  TrainerClient client = start(recipe(2), cancel);
  const std::vector<pid_t> others = children_of(client.pid());
  const std::jthread later([&cancel] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancel.request();
  });
  const auto stopped = client.request("run", {{"minimum_ns", kAnHour}}, kLimit);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(client.is_alive());
  EXPECT_EQ(children_of(client.pid()), others);
}

TEST_F(MeasuredRanks, ARankThatDiesInABlockIsNamed) {
  TrainerClient client = start(recipe(3));
  const std::vector<pid_t> others = children_of(client.pid());
  ASSERT_THAT(others, SizeIs(2));
  const std::jthread later([&others] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::kill(others[1], SIGKILL);
  });
  const auto failed = client.request("run", {{"minimum_ns", kAnHour}}, kLimit);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::crashed);
  EXPECT_THAT(failed.error().what, HasSubstr("rank 2 of 3 ended: signal 9"));
  wait_for([&] { return !is_running(others[0]) && !is_running(others[1]); });
}

// Nobody closes a connection then.
TEST_F(MeasuredRanks, ARankThatIsStoppedIsEndedAndNamed) {
  TrainerClient of_other = start(recipe(3));
  TrainerClient of_first = start(recipe(2));
  const std::vector<pid_t> others = children_of(of_other.pid());
  ASSERT_THAT(others, SizeIs(2));
  const std::vector<pid_t> second = children_of(of_first.pid());
  const auto run = [](TrainerClient& client) {
    return client.request("run", {{"minimum_ns", kAnHour}}, kLimit);
  };
  auto with_other = std::async(std::launch::async, run, std::ref(of_other));
  auto with_first = std::async(std::launch::async, run, std::ref(of_first));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::kill(others[0], SIGSTOP);
  ::kill(of_first.pid(), SIGSTOP);
  const auto other = with_other.get();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::crashed);
  EXPECT_THAT(other.error().what, HasSubstr("rank 1 of 3 was stopped (SIGSTOP)"));
  const auto first = with_first.get();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().kind, ErrorKind::crashed);
  EXPECT_THAT(first.error().what, HasSubstr("rank 0 of 2 was stopped (SIGSTOP)")) << "in its log";
  wait_for([&] {
    return !is_running(others[0]) && !is_running(others[1]) && !is_running(second.front());
  });
}

// The session's side: what is left of a trainer is ended, and the next trial starts another one.
TEST_F(MeasuredRanks, TheNextTrialRunsAfterAFault) {
  daemon::NeverCancelled never;
  daemon::TrainerBackend job(spec_of(recipe(2)), never);
  const Configuration begin = starting(recipe(2));
  const auto first = job.run_block(begin, {});
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->samples, first->steps * 20 * 2);
  const std::vector<pid_t> trainers = children_of(::getpid());
  ASSERT_THAT(trainers, SizeIs(1));
  const std::vector<pid_t> others = children_of(trainers.front());
  ASSERT_THAT(others, SizeIs(1));
  ::kill(others.front(), SIGKILL);
  const auto failed = job.run_block(with(begin, "optimizer.set_to_none", false), {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::crashed);
  EXPECT_THAT(failed.error().what, HasSubstr("rank 1 of 2 ended: signal 9"));

  EXPECT_TRUE(job.run_block(with(begin, "optimizer.set_to_none", false), {}));
  const auto same = job.compare_updates(begin, with(begin, "ddp.bucket_cap_mb", std::int64_t{1}), 4,
                                        tuner::CheckedSteps::later);
  ASSERT_TRUE(same) << same.error().message();
  EXPECT_TRUE(same->equal);
  // Another process, while the ranks of the first one stand still.
  const auto kept = job.run_block(with(begin, "memory.malloc", "keep"), {});
  EXPECT_TRUE(kept) << kept.error().message();
  EXPECT_THAT(children_of(::getpid()), SizeIs(2));
  const auto again = job.run_block(begin, {});
  EXPECT_TRUE(again) << again.error().message();
}

TEST_F(MeasuredRanks, TheNextTrialRunsAfterOneHadNoMemory) {
  recipes::Recipe many = small_cnn_recipe();
  many.train.ranks = 2;
  many.data.parameters["samples"] = 20'000;
  daemon::NeverCancelled never;
  daemon::TrainerBackend job(spec_of(many), never);
  const Configuration begin = starting(many);
  ASSERT_TRUE(job.run_block(begin, {}));
  const std::vector<pid_t> trainers = children_of(::getpid());
  ASSERT_THAT(trainers, SizeIs(1));
  const std::vector<pid_t> others = children_of(trainers.front());
  ASSERT_THAT(others, SizeIs(1));
  limit_memory(others.front(), 64U << 20U);  // the first activation alone takes 180 MiB
  const auto failed = job.run_block(with(begin, "batch_size", std::int64_t{10'000}), {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::out_of_memory) << failed.error().message();
  EXPECT_THAT(failed.error().what, StartsWith("rank 1 of 2: "));
  const auto next = job.run_block(begin, {});
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->samples, next->steps * 20 * 2);
  wait_for([&] { return !is_running(others.front()); });
}

// The trainer that the session speaks to is a rank, too.
TEST_F(MeasuredRanks, TheFirstOneIsNamedWhenItDies) {
  daemon::NeverCancelled never;
  daemon::TrainerBackend job(spec_of(recipe(2)), never);
  const Configuration begin = starting(recipe(2));
  ASSERT_TRUE(job.run_block(begin, {}));
  const std::vector<pid_t> trainers = children_of(::getpid());
  ASSERT_THAT(trainers, SizeIs(1));
  ::kill(trainers.front(), SIGKILL);
  const auto failed = job.run_block(begin, {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::crashed);
  EXPECT_THAT(failed.error().what, StartsWith("rank 0 of 2: the trainer ended"));
  const auto next = job.run_block(begin, {});
  EXPECT_TRUE(next) << next.error().message();
}

// The others cannot end it then.
TEST_F(MeasuredRanks, TheFirstOneIsEndedThatIsStoppedWhileNoOtherRuns) {
  daemon::NeverCancelled never;
  daemon::TrainerBackendSpec spec = spec_of(recipe(2));
  spec.stopped_limit = std::chrono::seconds(1);
  daemon::TrainerBackend job(std::move(spec), never);
  const Configuration begin = starting(recipe(2));
  for (const int of_other : {SIGKILL, SIGSTOP}) {
    const auto block = job.run_block(begin, {});
    ASSERT_TRUE(block) << block.error().message();
    const std::vector<pid_t> trainers = children_of(::getpid());
    ASSERT_THAT(trainers, SizeIs(1));
    const std::vector<pid_t> others = children_of(trainers.front());
    ASSERT_THAT(others, SizeIs(1));
    ::kill(trainers.front(), SIGSTOP);
    ::kill(others.front(), of_other);
    const auto failed = job.run_block(begin, {});
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::crashed);
    EXPECT_THAT(failed.error().what,
                StartsWith("rank 0 of 2: the trainer was stopped (SIGSTOP) for 1.0 s"));
    wait_for([&] { return !is_running(others.front()); });
  }
}

TEST_F(MeasuredRanks, TheFirstOneIsNamedWhenItDiesInATraining) {
  recipes::Recipe endless = recipe(2);
  endless.train.epochs = kManyEpochs;
  daemon::NeverCancelled never;
  daemon::TrainerBackend job(spec_of(endless), never);
  const auto failed =
      job.train(starting(endless), folder_ / "checkpoint.pt", [](const Json& progress) {
        if (!get_integer(progress, "step")) return;
        for (const pid_t trainer : children_of(::getpid()))
          ::kill(trainer, SIGKILL);
      });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::crashed);
  EXPECT_THAT(failed.error().what, StartsWith("rank 0 of 2: the trainer ended"));
}

}  // namespace
}  // namespace autotuned::trainer
