# SPDX-License-Identifier: Apache-2.0
# The four ways to declare a target. Sources may be headers too; paths are relative to the folder.
#
#   autotuned_library(autotuned_base SOURCES result.cpp ... PUBLIC tl::expected PRIVATE fmt::fmt)
#   autotuned_executable(autotuned SOURCES main.cpp PRIVATE autotuned_daemon_cli)
#   autotuned_plugin(num_workers SOURCES num_workers.cpp [PRIVATE ...] [FILES extra.yaml])
#   autotuned_test(statistics_test SOURCES statistics_test.cpp LINK autotuned_tuner
#                  [LABELS slow gpu] [TIMEOUT 120] [MEASURES | WAITS] [SUITES [ALONE Suite ...]])
#
# A library without a .cpp file becomes an INTERFACE library.
include_guard(GLOBAL)
include(AutotunedPrecompiledHeaders)
if(AUTOTUNED_WITH_TESTS)
  include(GoogleTest)
endif()
set(AUTOTUNED_TEST_SUITES "${CMAKE_CURRENT_LIST_DIR}/AutotunedTestSuites.cmake")
include("${AUTOTUNED_TEST_SUITES}")

# What `autotuned run` needs: programs and plugins, without tests and benchmarks.
add_custom_target(programs)

function(autotuned_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC;PRIVATE")
  _autotuned_check_arguments(autotuned_library ${name})
  set(compiled ${arg_SOURCES})
  list(FILTER compiled INCLUDE REGEX "\\.(c|cpp)$")
  if(compiled)
    add_library(${name} STATIC ${arg_SOURCES})
    target_link_libraries(${name} PUBLIC autotuned_options ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
    if("LibTorch::LibTorch" IN_LIST arg_PRIVATE)
      # LibTorch's own headers then include the operators that they use instead of all.
      target_compile_definitions(${name} PRIVATE AT_PER_OPERATOR_HEADERS)
      autotuned_use_precompiled_header(${name} torch_library)
    else()
      autotuned_use_precompiled_header(${name} library)
    endif()
    _autotuned_join_sources(${name} ${arg_PRIVATE})
  else()
    add_library(${name} INTERFACE ${arg_SOURCES})
    target_link_libraries(${name} INTERFACE autotuned_options ${arg_PUBLIC})
  endif()
endfunction()

function(autotuned_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PRIVATE")
  _autotuned_check_arguments(autotuned_executable ${name})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE autotuned_options ${arg_PRIVATE})
  target_link_options(${name} PRIVATE "@${AUTOTUNED_SYSTEM_RPATH_OPTIONS}")
  autotuned_use_precompiled_header(${name} program)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${AUTOTUNED_BIN_DIR}")
  # bench/ declares its programs with this function too.
  file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT folder MATCHES "^(bench|tests)")
    add_dependencies(programs ${name})
    install(TARGETS ${name} RUNTIME DESTINATION bin)
  endif()
endfunction()

# A policy plugin: lib<name>.so in the plugin folder, never linked with LibTorch. FILES (for example
# manifests or YAML plugins) are copied next to it.
function(autotuned_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PRIVATE;FILES")
  _autotuned_check_arguments(autotuned_plugin ${name})
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE autotuned_options ${arg_PRIVATE})
  autotuned_use_precompiled_header(${name} library)
  # Nothing undefined: a missing symbol is an error of the build, not of somebody's run.
  if(NOT AUTOTUNED_SANITIZE)
    target_link_options(${name} PRIVATE LINKER:-z,defs)
  endif()
  set_target_properties(${name} PROPERTIES
    PREFIX lib LIBRARY_OUTPUT_DIRECTORY "${AUTOTUNED_PLUGIN_DIR}")
  add_dependencies(programs ${name})
  install(TARGETS ${name} LIBRARY DESTINATION lib/autotuned/plugins)
  autotuned_plugin_files(${arg_FILES})
endfunction()

# Copies files such as YAML plugins into the plugin folder, again whenever they change.
function(autotuned_plugin_files)
  foreach(file IN LISTS ARGN)
    cmake_path(GET file FILENAME leaf)
    set(from "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
    set(to "${AUTOTUNED_PLUGIN_DIR}/${leaf}")
    add_custom_command(OUTPUT "${to}"
      COMMAND ${CMAKE_COMMAND} -E copy "${from}" "${to}"
      DEPENDS "${from}" VERBATIM)
    string(MAKE_C_IDENTIFIER "${leaf}" id)
    add_custom_target(autotuned_plugin_file_${id} ALL DEPENDS "${to}")
    add_dependencies(programs autotuned_plugin_file_${id})
    install(FILES "${from}" DESTINATION lib/autotuned/plugins)
  endforeach()
endfunction()

# All that autotuned_test() declares, with what each needs.
add_custom_target(test_programs)

# A GoogleTest executable in build/<preset>/tests. Test names carry the folder: tests/tuner/CMakeLists.txt makes
# tuner.Suite.Test. Tests run in the repository root, know the tree by tests/places.hpp, and are killed after TIMEOUT
# seconds (60 by default, per test case). Those with a TIMEOUT of their own start first, so that no long one is left for
# the end. CTest gets two slots for each CPU and one more (test_slots of scripts/lib/common.sh), and a test takes two.
#   MEASURES  tests that compare rates of real trainers; no two of them run at once, and they start before all others.
#             Each takes three slots: on two CPUs that leaves room for one other test, or for two that wait
#   WAITS     tests whose processes sleep nearly all the time. Each takes one slot and stands behind all others in the
#             order: where other tests use the CPUs, one of these runs beside them, and several do when those are done.
#             Such a test compares rates only of steps that sleep, which vary little beside other programs
#   SUITES    a process runs a whole suite, and the test is tuner.Suite: for programs with LibTorch, whose process takes
#             longer to start than most cases take to run. A case must leave the process as it found it
#   ALONE     suites whose cases do not, or that look at a process where nothing was done before: each of their cases
#             has a process of its own
# With AUTOTUNED_SANITIZE every program has SUITES, and none is ALONE.
function(autotuned_test name)
  if(NOT AUTOTUNED_WITH_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "MEASURES;WAITS;SUITES" "TIMEOUT" "SOURCES;LINK;LABELS;ALONE")
  _autotuned_check_arguments(autotuned_test ${name})
  if(arg_ALONE AND NOT arg_SUITES)
    message(FATAL_ERROR "autotuned_test(${name}): ALONE without SUITES")
  endif()
  if(arg_MEASURES AND arg_WAITS)
    message(FATAL_ERROR "autotuned_test(${name}): MEASURES or WAITS, not both")
  endif()
  set(slots 2)
  set(order)
  if(arg_MEASURES)
    set(slots 3)
    # More than any suite: where the first two do not start at once, there are never three free slots again.
    set(order COST 100000 RESOURCE_LOCK measurement)
  elseif(arg_TIMEOUT)
    set(order COST ${arg_TIMEOUT})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(arg_WAITS)
    set(slots 1)
    autotuned_cost_behind_others(cost ${arg_TIMEOUT})
    set(order COST ${cost})
  endif()
  if(AUTOTUNED_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()

  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${AUTOTUNED_TEST_OPTIONS})
  target_link_options(${name} PRIVATE "@${AUTOTUNED_SYSTEM_RPATH_OPTIONS}")
  target_link_libraries(${name} PRIVATE
    autotuned_options autotuned_test_places ${arg_LINK} GTest::gmock GTest::gmock_main)
  if("LibTorch::LibTorch" IN_LIST arg_LINK)
    autotuned_use_precompiled_header(${name} torch_test)
  else()
    autotuned_use_precompiled_header(${name} test)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${AUTOTUNED_TEST_DIR}")
  _autotuned_join_sources(${name} ${arg_LINK})

  file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  string(REGEX REPLACE "^tests/" "" folder "${folder}")
  string(REPLACE "/" "." prefix "${folder}")
  string(REGEX REPLACE "\\..*" "" area "${prefix}")
  add_dependencies(test_programs ${name})
  set_property(GLOBAL APPEND PROPERTY AUTOTUNED_TEST_PROGRAMS "${folder} ${name} ${prefix}")
  if(AUTOTUNED_SANITIZE OR arg_SUITES)
    set(alone)
    if(NOT AUTOTUNED_SANITIZE)
      set(alone ${arg_ALONE})
    endif()
    set(suites_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake")
    file(CONFIGURE OUTPUT "${suites_file}" @ONLY CONTENT "include([==[@AUTOTUNED_TEST_SUITES@]==])
autotuned_add_suites([==[@AUTOTUNED_TEST_DIR@/@name@]==] @prefix@ @arg_TIMEOUT@ [==[@CMAKE_SOURCE_DIR@]==]
  \"@area@;@arg_LABELS@\" \"@alone@\" @slots@)
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${suites_file}")
    return()
  endif()

  gtest_discover_tests(${name}
    TEST_PREFIX "${prefix}."
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${arg_TIMEOUT} PROCESSORS ${slots} ${order})

  # Lists do not survive PROPERTIES above, so the labels follow in a file of their own.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${labels_file}" "if(${name}_TESTS)
  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${area};${arg_LABELS}\")
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()

# Most of a compilation is templates of nlohmann/json.hpp and LibTorch, which files that are compiled together instantiate
# once. Names in unnamed namespaces must differ within a target; -DAUTOTUNED_UNITY_BUILD=OFF compiles each file by itself.
function(_autotuned_join_sources name)
  if(NOT AUTOTUNED_UNITY_BUILD)
    return()
  endif()
  set(at_a_time 8)
  if("LibTorch::LibTorch" IN_LIST ARGN)
    set(at_a_time 4)  # 2 GB each
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${at_a_time})
endfunction()

macro(_autotuned_check_arguments function name)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${function}(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "${function}(${name}): no SOURCES")
  endif()
endmacro()
