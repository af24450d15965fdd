// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The situation of a job on a machine with such files.
class HostAllocator : public ::testing::Test {
 protected:
  [[nodiscard]] Json situation_here() const {
    Json json = situation("fashion_cnn_cpu");
    json["environment"]["root"] = root_.path().string();
    return json;
  }
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  static void forbid_allocators(Json& json) {
    json["knobs"]["memory.allocator"]["unavailable"] = "is not for this test";
  }
  void set_huge_pages(const std::string& text) const {
    write("sys/kernel/mm/transparent_hugepage/enabled", text + "\n");
  }

  PluginFolder root_;
};

TEST_F(HostAllocator, AsksForHugePages) {
  set_huge_pages("always [madvise] never");
  Json json = situation_here();
  const Json answer = ask("host_allocator", json);
  ASSERT_EQ(answer.at("candidates").size(), 2U);
  EXPECT_EQ(first_change(answer), Json({{"env.GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}}));
  EXPECT_THAT(first_reason(answer), AllOf(HasSubstr("12 %"), HasSubstr("900 page faults")));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.06), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.12, 1e-9);
  forbid_allocators(json);
  tell(json, {{"env.GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}}, "rejected", 1.0);
  EXPECT_THAT(none_because(ask("host_allocator", json)), HasSubstr("were tried"));
  tell(json, {{"env.GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}}, "accepted", 1.05);
  EXPECT_THAT(none_because(ask("host_allocator", json)), HasSubstr("already set"));
}

TEST_F(HostAllocator, TriesTheAllocatorsThatThereAre) {
  Json json = situation_here();
  Json answer = ask("host_allocator", json);
  ASSERT_EQ(answer.at("candidates").size(), 1U);
  EXPECT_EQ(first_change(answer), Json({{"memory.allocator", "jemalloc"}}));
  EXPECT_THAT(first_reason(answer), AllOf(HasSubstr("12 %"), HasSubstr("keeps freed memory")));
  EXPECT_NEAR(first_share(answer), 0.12, 1e-9);
  // The setting of glibc's goes with it.
  json["incumbent"]["memory.malloc"] = "keep";
  EXPECT_EQ(first_change(ask("host_allocator", json)),
            Json({{"memory.allocator", "jemalloc"}, {"memory.malloc", "default"}}));
  json["incumbent"]["memory.malloc"] = "default";
  tell(json, {{"memory.allocator", "jemalloc"}}, "rejected", 0.99);
  EXPECT_THAT(none_because(ask("host_allocator", json)),
              AllOf(HasSubstr("no huge pages"), HasSubstr("jemalloc was tried"),
                    HasSubstr("of the package libtcmalloc-minimal4")));
  json["knobs"]["memory.allocator"].erase("unavailable_choices");
  EXPECT_EQ(first_change(ask("host_allocator", json)), Json({{"memory.allocator", "tcmalloc"}}));
  tell(json, {{"memory.allocator", "tcmalloc"}}, "accepted", 1.1);
  // Against the new incumbent the question is open again, but glibc's settings mean nothing to it.
  set_huge_pages("always [madvise] never");
  answer = ask("host_allocator", json);
  ASSERT_EQ(answer.at("candidates").size(), 1U);
  EXPECT_EQ(first_change(answer), Json({{"memory.allocator", "jemalloc"}}));
}

TEST_F(HostAllocator, SaysOnceWhatHoldsForAllItsChanges) {
  set_huge_pages("always [madvise] never");
  Json json = situation_here();
  json["knobs"] = Json::object();
  json["permissions"]["option"] = "--allow";  // a script's job
  EXPECT_EQ(none_because(ask("host_allocator", json)),
            "what it changes can only be changed in a recipe");
}

TEST_F(HostAllocator, AsksOnlyWhereAskingHelps) {
  set_huge_pages("[always] madvise never");
  Json json = situation_here();
  forbid_allocators(json);
  EXPECT_THAT(none_because(ask("host_allocator", json)), HasSubstr("already gives huge pages"));
  for (const char* mode : {"always madvise [never]", "", "]["}) {
    set_huge_pages(mode);
    EXPECT_THAT(none_because(ask("host_allocator", json)), HasSubstr("no huge pages")) << mode;
  }
}

TEST_F(HostAllocator, SaysWhyNot) {
  set_huge_pages("always [madvise] never");
  Json json = situation_here();
  json["metrics"]["cpu.kernel_ratio"] = 0.001;
  EXPECT_THAT(none_because(ask("host_allocator", json)), HasSubstr("only 0.1 %"));
  json["metrics"].erase("cpu.kernel_ratio");
  EXPECT_THAT(none_because(ask("host_allocator", json)), HasSubstr("does not say"));
  EXPECT_THAT(none_because(ask("host_allocator", situation("resnet18_gpu"))), HasSubstr("GPU"));
}

}  // namespace
}  // namespace autotuned::plugins
