// SPDX-License-Identifier: Apache-2.0
#include "base/function_lookup.hpp"

#include <gtest/gtest.h>

namespace autotuned {
namespace {

TEST(FunctionLookup, RemembersTheFirstThatIsMissing) {
  void* const library = ::dlopen(AUTOTUNED_FAKE_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  int (*init)(unsigned) = nullptr;
  int (*missing)(unsigned) = nullptr;
  int (*other)(unsigned) = nullptr;
  FunctionLookup functions(library);
  functions.find(init, "cuInit");
  EXPECT_NE(init, nullptr);
  EXPECT_EQ(functions.first_missing(), "");
  missing = init;
  functions.find(missing, "cuNoSuchFunction");
  functions.find(other, "cuNorThisOne");
  functions.find(init, "cuInit");
  EXPECT_EQ(missing, nullptr);
  EXPECT_EQ(other, nullptr);
  EXPECT_NE(init, nullptr);
  EXPECT_EQ(functions.first_missing(), "cuNoSuchFunction");
  ::dlclose(library);
}

}  // namespace
}  // namespace autotuned
