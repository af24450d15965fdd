// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

const Json kHugePages = {{"env.GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}};
const Json kJemalloc = {{"memory.allocator", "jemalloc"}};
const Json kTcmalloc = {{"memory.allocator", "tcmalloc"}};

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
  Answers answers_{"host_allocator"};
};

TEST_F(HostAllocator, AsksForHugePages) {
  set_huge_pages("always [madvise] never");
  Json json = situation_here();
  const Json answer = answers_.proposes("12 % in the kernel", json, kHugePages);
  ASSERT_EQ(answer.at("candidates").size(), 2U);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.06), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.12, 1e-9);
  forbid_allocators(json);
  tell(json, kHugePages, "rejected", 1.0);
  answers_.declines("they were tried", json);
  tell(json, kHugePages, "accepted", 1.05);
  answers_.declines("they are set", json);
}

TEST_F(HostAllocator, TriesTheAllocatorsThatThereAre) {
  Json json = situation_here();
  const Json answer = answers_.proposes("jemalloc is there", json, kJemalloc);
  ASSERT_EQ(answer.at("candidates").size(), 1U);
  EXPECT_NEAR(first_share(answer), 0.12, 1e-9);
  // The setting of glibc's goes with it.
  answers_.proposes("glibc with a setting", json,
                    {{"memory.allocator", "jemalloc"}, {"memory.malloc", "default"}},
                    {{"incumbent", {{"memory.malloc", "keep"}}}});
  tell(json, kJemalloc, "rejected", 0.99);
  answers_.declines("jemalloc was tried", json);
  json["knobs"]["memory.allocator"].erase("unavailable_choices");
  answers_.proposes("tcmalloc is there, too", json, kTcmalloc);
  tell(json, kTcmalloc, "accepted", 1.1);
  // Against the new incumbent the question is open again, but glibc's settings mean nothing to it.
  set_huge_pages("always [madvise] never");
  const Json again = answers_.proposes("tcmalloc is kept", json, kJemalloc);
  EXPECT_EQ(again.at("candidates").size(), 1U);
}

TEST_F(HostAllocator, SaysOnceWhatHoldsForAllItsChanges) {
  set_huge_pages("always [madvise] never");
  Json json = situation_here();
  json["knobs"] = Json::object();
  json["permissions"]["option"] = "--allow";
  answers_.declines("a script", json);
}

TEST_F(HostAllocator, AsksOnlyWhereAskingHelps) {
  Json json = situation_here();
  forbid_allocators(json);
  for (const char* mode : {"[always] madvise never", "always madvise [never]", "", "]["}) {
    set_huge_pages(mode);
    answers_.declines("huge pages '" + std::string(mode) + "'", json);
  }
}

TEST_F(HostAllocator, SaysWhyNot) {
  set_huge_pages("always [madvise] never");
  const Json json = situation_here();
  answers_.declines("0.1 % in the kernel", json, {{"metrics", {{"cpu.kernel_ratio", 0.001}}}});
  answers_.declines("no measurement", json, {{"metrics", {{"cpu.kernel_ratio", nullptr}}}});
  answers_.declines("a GPU", situation("resnet18_gpu"));
}

}  // namespace
}  // namespace autotuned::plugins
