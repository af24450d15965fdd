// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/refused_plugins.hpp"

#include <gmock/gmock.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/small_run.hpp"

namespace autotuned::daemon {
namespace {

using plugins::FoundPlugin;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

FoundPlugin found(FoundPlugin::State state, const std::string& name, const std::string& refusal) {
  FoundPlugin plugin;
  plugin.state = state;
  plugin.name = name;
  plugin.kind = "policy";
  plugin.refusal = refusal;
  return plugin;
}

TEST(RefusedPlugins, AreStoredAsWhatTheyAre) {
  const TemporaryFolder folder;
  auto history = storage::History::open(folder / "history.db", storage::Access::read_write);
  ASSERT_TRUE(history);
  const storage::RunRow run = put_small_run(*history);
  const std::vector<FoundPlugin> all = {
      found(FoundPlugin::State::refused, "old", "of another version"),
      found(FoundPlugin::State::unsupported, "tf32", "no GPU"),
      found(FoundPlugin::State::unsupported, "unnamed", "no GPU"),
      found(FoundPlugin::State::ready, "amp", "")};
  const std::vector<std::string> named = {"old", "tf32", "amp"};
  EXPECT_THAT(record_refused_plugins(*history, run.id, all, named, 7).value(),
              ElementsAre("plugin old is refused: of another version; the run goes on without it",
                          "plugin tf32 is unsupported: no GPU; the run goes on without it"));
  EXPECT_THAT(record_refused_plugins(*history, run.id, all, named, 8).value(), IsEmpty())
      << "what is recorded is not told again";

  const auto answers = history->plugin_answers(run.id).value();
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[0].plugin, "old");
  EXPECT_EQ(answers[0].kind, storage::AnswerKind::refused);
  EXPECT_TRUE(answers[0].is_failure);
  EXPECT_EQ(answers[1].plugin, "tf32");
  EXPECT_EQ(answers[1].kind, storage::AnswerKind::unsupported);
  EXPECT_FALSE(answers[1].is_failure);
}

}  // namespace
}  // namespace autotuned::daemon
