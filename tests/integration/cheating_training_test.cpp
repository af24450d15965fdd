// SPDX-License-Identifier: Apache-2.0
// Extensions that are several times as fast because they train something else: each is tried, none is kept, and the reason
// names what was found.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/integration/scene.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

struct Cheat {
  std::string name;
  std::string reason;  // a part of it; empty: it is kept
};

void PrintTo(const Cheat& cheat, std::ostream* out) {
  *out << cheat.name;
}

class CheatingTraining : public testing::TestWithParam<Cheat> {
 protected:
  CheatingTraining() {
    scene_.set("AUTOTUNED_TRAINER=" + (tests::build_folder() / "bin/autotuned-trainer").string());
    const std::filesystem::path folder = scene_.folder() / "plugins";
    std::filesystem::create_directory(folder);
    for (const char* name : {"tiny", "cheats"}) {
      const std::string file = std::string("lib") + name + "_trainer.so";
      std::filesystem::copy_file(tests::build_folder() / "tests/fixture_plugins" / name / file,
                                 folder / file);
    }
    scene_.folder().write("plugins/cheats.yaml",
                          "plugin: 1\nname: cheats\nversion: '1'\nsummary: Proposes a cheat.\n"
                          "try:\n  - cheats.cheat: " +
                              GetParam().name + "\nexpect: 3\nreason: a test\n");
    scene_.folder().write(
        "recipe.yaml",
        "autotuned: 1\nname: small\ndevice: cpu\nmodel: {plugin: tiny, wait_ms: 4}\n"
        "data: {plugin: tiny, samples: 2048}\ninput:\n  - scale: {by: 1/255}\n"
        "optimizer: {type: sgd, lr: 0.1}\ntrain: {epochs: 2, batch_size: 32}\n"
        "tune: {plugins: [cheats], budget: 30s, allow: [numerics]}\noutput: {dir: '" +
            (scene_.folder() / "out").string() + "'}\n");
  }

  Scene scene_;
};

TEST_P(CheatingTraining, IsSeen) {
  const Outcome outcome =
      scene_.run({"--tune-only", "--plugin-dir", (scene_.folder() / "plugins").string()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json run = outcome.json();
  const Json trials = run.at("trials");
  ASSERT_FALSE(trials.empty());
  const Json& trial = trials.at(0);
  const Json& kept = run.at("best").at("configuration").at("cheats.cheat");
  if (GetParam().reason.empty()) {
    EXPECT_EQ(trial.at("verdict"), "accepted") << trial.dump(1);
    EXPECT_EQ(kept, GetParam().name);
    return;
  }
  EXPECT_EQ(trial.at("verdict"), "rejected") << trial.dump(1);
  EXPECT_THAT(trial.dump(), HasSubstr("it does not train the same model"));
  EXPECT_THAT(trial.dump(), HasSubstr(GetParam().reason));
  EXPECT_EQ(kept, "none");
}

INSTANTIATE_TEST_SUITE_P(, CheatingTraining,
                         testing::Values(Cheat{"honest", ""}, Cheat{"frozen_buffers", "seen"},
                                         Cheat{"repeats_batch", "the labels of step"},
                                         Cheat{"repeats_images", "the samples of step"},
                                         Cheat{"freezes_later", "hidden.weight"},
                                         Cheat{"skips_updates", "the update of hidden.weight"},
                                         Cheat{"stale_weights", "the update of hidden.weight"},
                                         Cheat{"evaluates_wrongly", "in evaluation mode"}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace autotuned
