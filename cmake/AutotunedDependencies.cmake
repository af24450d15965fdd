# SPDX-License-Identifier: Apache-2.0
# Everything that is not ours. scripts/setup installs all of it.
#
# Targets to link: fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json tl::expected
# Boost::headers yaml-cpp::yaml-cpp SQLiteCpp CLI11::CLI11 JPEG::JPEG PNG::PNG ZLIB::ZLIB Nettle::Nettle Utf8proc::Utf8proc
# Threads::Threads GTest::gtest GTest::gmock GTest::gmock_main benchmark::benchmark
# LibTorch::LibTorch Gloo::Headers CUPTI::CUPTI NCCL::Headers simdjson::simdjson
include_guard(GLOBAL)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tl-expected REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(simdjson REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(yaml-cpp REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED GLOBAL)
  target_link_libraries(yaml-cpp::yaml-cpp INTERFACE yaml-cpp)
endif()

find_path(AUTOTUNED_BOOST_INCLUDE_DIR boost/dll/import.hpp REQUIRED)
if(NOT TARGET Boost::headers)
  add_library(Boost::headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(Boost::headers INTERFACE "${AUTOTUNED_BOOST_INCLUDE_DIR}")
  target_link_libraries(Boost::headers INTERFACE ${CMAKE_DL_LIBS})
endif()

# SHA-256, by the CPU's own instructions where it has them.
find_path(AUTOTUNED_NETTLE_INCLUDE_DIR nettle/sha2.h REQUIRED)
find_library(AUTOTUNED_NETTLE_LIBRARY nettle REQUIRED)
add_library(Nettle::Nettle UNKNOWN IMPORTED GLOBAL)
set_target_properties(Nettle::Nettle PROPERTIES
  IMPORTED_LOCATION "${AUTOTUNED_NETTLE_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${AUTOTUNED_NETTLE_INCLUDE_DIR}")

# Widths and borders of characters on a terminal.
find_path(AUTOTUNED_UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(AUTOTUNED_UTF8PROC_LIBRARY utf8proc REQUIRED)
add_library(Utf8proc::Utf8proc UNKNOWN IMPORTED GLOBAL)
set_target_properties(Utf8proc::Utf8proc PROPERTIES
  IMPORTED_LOCATION "${AUTOTUNED_UTF8PROC_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${AUTOTUNED_UTF8PROC_INCLUDE_DIR}")

# The charts of the web page, as text: the package libjs-chart.js.
find_file(AUTOTUNED_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH REQUIRED)
find_file(AUTOTUNED_CHART_JS_LICENCE copyright PATHS /usr/share/doc/libjs-chart.js NO_DEFAULT_PATH REQUIRED)

if(AUTOTUNED_WITH_LIBTORCH)
  find_package(LibTorch 2.11.0 REQUIRED)

  # LibTorch has Gloo in it, but its headers include those of Gloo. They are used where they declare what LibTorch's
  # own do not hide; nothing of this package is linked.
  find_path(AUTOTUNED_GLOO_INCLUDE_DIR gloo/rendezvous/store.h)
  if(NOT AUTOTUNED_GLOO_INCLUDE_DIR)
    message(FATAL_ERROR
      "The headers of Gloo (gloo/rendezvous/store.h) are missing.\nRun scripts/setup, or install libgloo-dev, or build "
      "without the trainer: -DAUTOTUNED_WITH_LIBTORCH=OFF")
  endif()
  add_library(Gloo::Headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(Gloo::Headers INTERFACE "${AUTOTUNED_GLOO_INCLUDE_DIR}")
  target_compile_definitions(Gloo::Headers INTERFACE USE_C10D_GLOO)
  find_package(CUPTI REQUIRED)
  find_package(NCCL)
else()
  find_package(CUPTI QUIET)
endif()
if(AUTOTUNED_WITH_TESTS)
  find_package(GTest 1.12 REQUIRED)
endif()
if(AUTOTUNED_WITH_BENCH)
  find_package(benchmark REQUIRED)
endif()
