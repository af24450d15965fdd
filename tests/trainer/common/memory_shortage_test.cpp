// SPDX-License-Identifier: Apache-2.0
// What LibTorch 2.11 says when a GPU has no memory left, word for word, and what is made of it.
#include "trainer/common/memory_shortage.hpp"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <stdexcept>
#include <string>

#include "trainer/common/guarded.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr const char* kEnd =
    " If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  "
    "(https://docs.pytorch.org/docs/stable/notes/"
    "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";

std::string told(const std::string& use) {
  return "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.50 GiB "
         "of which 512.00 MiB is free. " +
         use + kEnd;
}

const std::string kFull = told(
    "Including non-PyTorch memory, this process has 139.00 GiB memory in use. Of the allocated "
    "memory 138.00 GiB is allocated by PyTorch, and 256.00 MiB is reserved by PyTorch but "
    "unallocated.");
const std::string kInPieces = told(
    "Including non-PyTorch memory, this process has 139.00 GiB memory in use. Of the allocated "
    "memory 130.00 GiB is allocated by PyTorch, with 4.00 GiB allocated in private pools (e.g., "
    "CUDA Graphs), and 8.00 GiB is reserved by PyTorch but unallocated.");
const std::string kShared = told(
    "Process 4711 has 60.00 GiB memory in use. Including non-PyTorch memory, this process has "
    "79.00 GiB memory in use. Of the allocated memory 78.00 GiB is allocated by PyTorch, and "
    "200.00 MiB is reserved by PyTorch but unallocated.");
// As in a container, where the driver does not know which process this is.
const std::string kUnnamed = told(
    "Of the allocated memory 138.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by "
    "PyTorch but unallocated.");

TEST(MemoryShortage, ReadsWhatLibTorchTells) {
  const auto full = memory_shortage_from(kFull);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->wanted, 2 * kGiB);
  EXPECT_EQ(full->device_total, 139 * kGiB + 512 * kMiB);
  EXPECT_EQ(full->device_free, 512 * kMiB);
  EXPECT_EQ(full->own, 139 * kGiB);
  EXPECT_EQ(full->unused, 256 * kMiB);
  EXPECT_EQ(memory_shortage_from(kInPieces)->unused, 8 * kGiB);
  EXPECT_EQ(memory_shortage_from(kShared)->own, 79 * kGiB);
  EXPECT_EQ(memory_shortage_from(kUnnamed)->own, 138 * kGiB + 512 * kMiB);
}

TEST(MemoryShortage, IsNoOtherMessage) {
  EXPECT_FALSE(memory_shortage_from("CUDA error: out of memory"));
  EXPECT_FALSE(memory_shortage_from("CUDA out of memory. Tried to allocate more than 1EB memory."));
  EXPECT_FALSE(memory_shortage_from(""));
  const auto bare = memory_shortage_from("CUDA out of memory. Tried to allocate 512 bytes.");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->wanted, 512);
  EXPECT_EQ(bare->device_total, 0);
}

TEST(MemoryShortage, NamesTheCauseAndWhatHelps) {
  const Error full = to_error(*memory_shortage_from(kFull), "training step");
  EXPECT_EQ(full.kind, ErrorKind::out_of_memory);
  EXPECT_EQ(full.what,
            "the GPU has no memory left for another 2.0 GiB (of 139.5 GiB this process has 139.0 "
            "GiB)");
  EXPECT_EQ(full.where, "training step");
  EXPECT_EQ(full.remedy, "use smaller batches");
  EXPECT_FALSE(full.is_memory_of_others);

  const Error pieces = to_error(*memory_shortage_from(kInPieces), "");
  EXPECT_THAT(pieces.what, HasSubstr("8.0 GiB of its own are unused, in pieces"));
  EXPECT_THAT(pieces.remedy, HasSubstr("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
  EXPECT_THAT(pieces.remedy, Not(HasSubstr("other programs")));

  const Error shared = to_error(*memory_shortage_from(kShared), "");
  EXPECT_THAT(shared.what, HasSubstr("other programs 60.0 GiB"));
  EXPECT_EQ(shared.remedy, "end the other programs on this GPU");
  EXPECT_TRUE(shared.is_memory_of_others);

  EXPECT_EQ(to_error(*memory_shortage_from(kUnnamed), "").remedy, "use smaller batches");
  // Where others have all of it before this process has anything.
  const auto none = memory_shortage_from(
      told("Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by "
           "PyTorch but unallocated."));
  EXPECT_EQ(to_error(*none, "").remedy, "end the other programs on this GPU");
  EXPECT_EQ(to_error({.wanted = 512}, "").what, "the GPU has no memory left for another 512 B");
}

TEST(MemoryShortage, IsWhatAGuardedCallAnswers) {
  const auto failed = guarded("training step", []() -> Result<void> {
    TORCH_CHECK_WITH(OutOfMemoryError, false, kInPieces);
    return {};
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::out_of_memory);
  EXPECT_THAT(failed.error().message(), HasSubstr("expandable_segments:True"));
  EXPECT_THAT(failed.error().message(), Not(HasSubstr("https://")));
  // Only LibTorch knows.
  const auto other = guarded("here", []() -> Result<void> { throw std::runtime_error(kFull); });
  EXPECT_EQ(other.error().kind, ErrorKind::internal);
}

}  // namespace
}  // namespace autotuned::trainer
