# SPDX-License-Identifier: Apache-2.0
# Compiler, linker and output folders, shared by every target through `autotuned_options`.
include_guard(GLOBAL)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)
# FindLibTorch.cmake writes the run path itself; CMake's own would end in an empty entry, which
# means the current folder.
set(CMAKE_SKIP_RPATH ON)
# Where scripts/package puts libraries that another system lacks, beside the programs of a build; there is no such folder in
# the build itself, and no such path in installed programs. A file of options for the sake of $ORIGIN, as in
# FindLibTorch.cmake; it comes before that one's.
set(AUTOTUNED_SYSTEM_RPATH "$ORIGIN/../lib/system")
set(AUTOTUNED_SYSTEM_RPATH_OPTIONS "${CMAKE_BINARY_DIR}/CMakeFiles/system_rpath_options.txt")
file(CONFIGURE OUTPUT "${AUTOTUNED_SYSTEM_RPATH_OPTIONS}" @ONLY CONTENT
  "-Wl,-rpath,@AUTOTUNED_SYSTEM_RPATH@\n-Wl,--disable-new-dtags\n")

# Line tables only: enough for a readable stack, a tenth of the size. Asserts stay on. The checks of a sanitizer are much code,
# which takes long to optimise further.
set(AUTOTUNED_OPTIMISATION -O2)
if(AUTOTUNED_SANITIZE)
  set(AUTOTUNED_OPTIMISATION -O1)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${AUTOTUNED_OPTIMISATION} -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "${AUTOTUNED_OPTIMISATION} -g1")

set(AUTOTUNED_BIN_DIR "${CMAKE_BINARY_DIR}/bin")
set(AUTOTUNED_PLUGIN_DIR "${CMAKE_BINARY_DIR}/lib/autotuned/plugins")
set(AUTOTUNED_TEST_DIR "${CMAKE_BINARY_DIR}/tests")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${AUTOTUNED_BIN_DIR}")
file(MAKE_DIRECTORY "${AUTOTUNED_BIN_DIR}" "${AUTOTUNED_PLUGIN_DIR}")

find_program(AUTOTUNED_CCACHE ccache)
if(AUTOTUNED_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what precompiled headers need; see "PRECOMPILED HEADERS" in ccache(1). With the base
  # folder and without the build folder in the hash, one clone profits from what another compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${AUTOTUNED_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${AUTOTUNED_CCACHE})
endif()

add_library(autotuned_options INTERFACE)
target_compile_features(autotuned_options INTERFACE cxx_std_20)
target_include_directories(autotuned_options INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_options(autotuned_options INTERFACE
  -Wall -Wextra -Wpedantic -Werror
  -Wshadow -Wconversion -Wcast-qual -Wnon-virtual-dtor -Woverloaded-virtual -Wvla
  -Wunused -Wnull-dereference
  # Designated initialisers leave fields out on purpose.
  -Wno-missing-field-initializers
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(autotuned_options INTERFACE
    -Wduplicated-cond -Wlogical-op
    # GCC 12 sees overlap in `"text" + std::string` (GCC bug 105651), and null pointers in inlined
    # library code.
    -Wno-restrict -Wno-null-dereference
    # Out of a precompiled header it no longer knows which inlined code is the library's.
    $<$<BOOL:${AUTOTUNED_PRECOMPILED_HEADERS}>:-Wno-stringop-overflow>
    $<$<BOOL:${AUTOTUNED_PRECOMPILED_HEADERS}>:-Wno-array-bounds>
    # Of a class whose members' types are in an unnamed namespace it warns unless that is in the main file.
    $<$<BOOL:${AUTOTUNED_UNITY_BUILD}>:-Wno-subobject-linkage>
    # What ccache needs to keep objects built with a precompiled header.
    -fpch-preprocess)
endif()
target_compile_definitions(autotuned_options INTERFACE
  BOOST_DLL_USE_STD_FS
  $<$<CONFIG:RelWithDebInfo>:_GLIBCXX_ASSERTIONS>)

# Sources of tests are compiled more often than they run: without optimisation that takes a third less time than with -O1. What
# they test keeps its own.
set(AUTOTUNED_TEST_OPTIONS -O0)

if(AUTOTUNED_SANITIZE)
  target_compile_options(autotuned_options INTERFACE
    -fsanitize=${AUTOTUNED_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code confuses these analyses of GCC 12.
    target_compile_options(autotuned_options INTERFACE
      -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds)
  endif()
  if(AUTOTUNED_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(autotuned_options INTERFACE -Wno-tsan)
  endif()
  target_link_options(autotuned_options INTERFACE -fsanitize=${AUTOTUNED_SANITIZE})
endif()

# The fastest linker that is installed. GCC 12 knows both by name.
find_program(AUTOTUNED_MOLD mold)
find_program(AUTOTUNED_LLD ld.lld)
if(AUTOTUNED_MOLD)
  target_link_options(autotuned_options INTERFACE -fuse-ld=mold)
elseif(AUTOTUNED_LLD)
  target_link_options(autotuned_options INTERFACE -fuse-ld=lld)
endif()
