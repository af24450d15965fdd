# SPDX-License-Identifier: Apache-2.0
# Precompiled headers, shared by every target of a kind: parsing nlohmann/json.hpp and gmock.h again in each
# of 700 files would take most of a build. Sources still include what they use:
# -DAUTOTUNED_PRECOMPILED_HEADERS=OFF builds without, and must pass.
#
# GCC compares how a header was compiled with how it is used, position independence and macros included, so
# each kind of target has one of its own; the option is declared in CMakeLists.txt. `autotuned_use_precompiled_header(TARGET)` chooses it.
include_guard(GLOBAL)

set(_autotuned_common_headers
  <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set>
  <span> <string> <string_view> <utility> <variant> <vector> <nlohmann/json.hpp> <tl/expected.hpp>)
set(_autotuned_test_headers <gmock/gmock.h> <gtest/gtest.h>)
# What nearly every file of the trainer reads; torch/torch.h would take 40 s and a gigabyte.
set(_autotuned_torch_headers <ATen/core/Tensor.h> <torch/nn/module.h>)

# _autotuned_add_precompiled_header(NAME KIND HEADERS LIBRARIES)
function(_autotuned_add_precompiled_header name kind headers libraries)
  set(source "${CMAKE_BINARY_DIR}/precompiled/${name}.cpp")
  if(kind STREQUAL "program")
    file(CONFIGURE OUTPUT "${source}" CONTENT "int main() {}\n")
    add_executable(${name} EXCLUDE_FROM_ALL "${source}")
  else()
    file(CONFIGURE OUTPUT "${source}" CONTENT "namespace {}\n")
    add_library(${name} OBJECT EXCLUDE_FROM_ALL "${source}")
  endif()
  target_link_libraries(${name} PRIVATE autotuned_options ${libraries})
  target_precompile_headers(${name} PRIVATE ${headers})
  if(name MATCHES "_test$")
    target_compile_options(${name} PRIVATE ${AUTOTUNED_TEST_OPTIONS})
  endif()
  if("LibTorch::LibTorch" IN_LIST libraries)
    target_compile_definitions(${name} PRIVATE AT_PER_OPERATOR_HEADERS)
  endif()
endfunction()

if(AUTOTUNED_PRECOMPILED_HEADERS)
  set(_plain nlohmann_json::nlohmann_json tl::expected)
  _autotuned_add_precompiled_header(precompiled_library library "${_autotuned_common_headers}" "${_plain}")
  _autotuned_add_precompiled_header(precompiled_program program "${_autotuned_common_headers}" "${_plain}")
  if(AUTOTUNED_WITH_TESTS)
    _autotuned_add_precompiled_header(precompiled_test program
      "${_autotuned_common_headers};${_autotuned_test_headers}" "${_plain};GTest::gmock")
  endif()
  if(AUTOTUNED_WITH_LIBTORCH)
    _autotuned_add_precompiled_header(precompiled_torch_library library
      "${_autotuned_common_headers};${_autotuned_torch_headers}" "${_plain};LibTorch::LibTorch")
    if(AUTOTUNED_WITH_TESTS)
      _autotuned_add_precompiled_header(precompiled_torch_test program
        "${_autotuned_common_headers};${_autotuned_test_headers};${_autotuned_torch_headers}"
        "${_plain};GTest::gmock;LibTorch::LibTorch")
    endif()
  endif()
endif()

# autotuned_use_precompiled_header(TARGET library|program|test|torch_library|torch_test)
function(autotuned_use_precompiled_header target kind)
  if(AUTOTUNED_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM precompiled_${kind})
    if(kind MATCHES "^torch")
      target_compile_definitions(${target} PRIVATE AT_PER_OPERATOR_HEADERS)
    endif()
    # json.hpp finds its own headers in the same place whether a target names the library or not.
    target_link_libraries(${target} PRIVATE nlohmann_json::nlohmann_json tl::expected)
  endif()
endfunction()
