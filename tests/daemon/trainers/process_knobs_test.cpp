// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/process_knobs.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace autotuned::daemon {
namespace {

recipes::Knob knob(const std::string& name, recipes::KnobSwitch how) {
  recipes::Knob made;
  made.name = name;
  made.default_value = std::int64_t{0};
  made.how = how;
  return made;
}

const ProcessKnobs kKnobs({knob("live", recipes::KnobSwitch::live),
                           knob("restart", recipes::KnobSwitch::restart),
                           knob("other.live", recipes::KnobSwitch::live),
                           knob("other.restart", recipes::KnobSwitch::restart)},
                          {"other.live", "other.restart"});

Configuration configuration(std::int64_t live, std::int64_t restart, std::int64_t other_live,
                            std::int64_t other_restart) {
  Configuration made;
  made.set("live", live);
  made.set("restart", restart);
  made.set("other.live", other_live);
  made.set("other.restart", other_restart);
  return made;
}

TEST(ProcessKnobs, ALiveKnobSharesItsProcess) {
  EXPECT_EQ(kKnobs.key_of(configuration(0, 0, 0, 0)), kKnobs.key_of(configuration(1, 0, 0, 0)));
  EXPECT_NE(kKnobs.key_of(configuration(0, 0, 0, 0)), kKnobs.key_of(configuration(0, 1, 0, 0)));
}

TEST(ProcessKnobs, AProcessHasOneConfigurationOfItsExtensions) {
  EXPECT_NE(kKnobs.key_of(configuration(0, 0, 0, 0)), kKnobs.key_of(configuration(0, 0, 1, 0)));
  EXPECT_NE(kKnobs.key_of(configuration(0, 0, 1, 0)), kKnobs.key_of(configuration(0, 0, 2, 0)));
  EXPECT_FALSE(kKnobs.uses_extension(configuration(1, 1, 0, 0)));
  EXPECT_TRUE(kKnobs.uses_extension(configuration(0, 0, 1, 0)));
  EXPECT_TRUE(kKnobs.uses_extension(configuration(0, 0, 0, 1)));
}

TEST(ProcessKnobs, AllOfExtensionsCanBeAtTheirDefaults) {
  EXPECT_EQ(kKnobs.without_extensions(configuration(1, 1, 1, 1)), configuration(1, 1, 0, 0));
}

TEST(ProcessKnobs, LiveOnesOfExtensionsBeginAtTheirDefaults) {
  EXPECT_EQ(kKnobs.without_live_extensions(configuration(1, 1, 1, 1)), configuration(1, 1, 0, 1));
}

}  // namespace
}  // namespace autotuned::daemon
