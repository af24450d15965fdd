// SPDX-License-Identifier: Apache-2.0
#include "base/machine/driver_library.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

// The name inside the library, which no folder of the linker has.
constexpr const char* kName = "libautotuned-fake-driver.so.1";

TEST(DriverLibrary, IsFoundWhereContainersPutIt) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(AUTOTUNED_FAKE_DRIVER_ELSEWHERE, folder.path() / kName);
  const std::string place = folder.path().string();
  const std::array<const char*, 2> folders = {"/nowhere", place.c_str()};
  const DriverLibrary library = open_driver_library(kName, folders);
  ASSERT_NE(library.handle, nullptr) << library.reason;
  EXPECT_NE(::dlsym(library.handle, "cuInit"), nullptr);
  // CUDA's runtime opens it by its bare name.
  EXPECT_EQ(::dlopen(kName, RTLD_NOW | RTLD_LOCAL), library.handle);
}

TEST(DriverLibrary, ThatIsNowhereIsAReason) {
  const std::array<const char*, 1> folders = {"/nowhere"};
  const DriverLibrary library = open_driver_library("libautotuned-no-such.so.1", folders);
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_THAT(library.reason, HasSubstr("libautotuned-no-such.so.1"));
  EXPECT_THAT(library.reason, HasSubstr("No such file"));
}

TEST(DriverLibrary, ThatIsBrokenIsAReason) {
  const TemporaryFolder folder;
  const auto file = folder.write("libautotuned-broken.so.1", "not a library");
  const std::string place = folder.path().string();
  const std::array<const char*, 1> folders = {place.c_str()};
  const DriverLibrary library = open_driver_library("libautotuned-broken.so.1", folders);
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_THAT(library.reason, HasSubstr(file.string()));
}

TEST(DriverLibrary, OfAPathIsThatFileAlone) {
  const TemporaryFolder folder;
  EXPECT_EQ(open_driver_library((folder.path() / kName).string()).handle, nullptr);
}

}  // namespace
}  // namespace autotuned
