# SPDX-License-Identifier: Apache-2.0
# Read by CTest: one test for each suite of a GoogleTest program, PREFIX.Suite. For programs whose process takes longer
# to start than most cases take to run: those with SUITES (autotuned_test()), and all in a build with sanitizers.
cmake_minimum_required(VERSION 3.25)

# The COST of a test that starts in a slot that no other can take; of several such tests the one with most seconds
# starts first.
function(autotuned_cost_behind_others cost seconds)
  math(EXPR behind "${seconds} - 1000000")
  set(${cost} ${behind} PARENT_SCOPE)
endfunction()

# Tests run in `folder`. A suite of many cases gets more time, and starts before one of few. Of the suites that `alone`
# names each case is a test, PREFIX.Suite.Case. Each takes so many `slots` of CTest (autotuned_test()).
function(autotuned_add_suites program prefix seconds_per_case folder labels alone slots)
  cmake_path(GET program FILENAME name)
  if(NOT EXISTS "${program}")
    add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)
    return()
  endif()
  # The list is kept until the program is built again: it takes a start, too.
  set(list_file "${program}.cases")
  if("${program}" IS_NEWER_THAN "${list_file}")
    execute_process(COMMAND "${program}" --gtest_list_tests
      WORKING_DIRECTORY "${folder}" OUTPUT_VARIABLE listed RESULT_VARIABLE status TIMEOUT 60)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${program} cannot list its tests: ${status}\n${listed}")
    endif()
    # Parameters follow a '#' and may contain anything.
    string(REGEX REPLACE " *#[^\n]*" "" listed "${listed}")
    file(WRITE "${list_file}" "${listed}")
  endif()
  file(STRINGS "${list_file}" lines REGEX "^( +[A-Za-z0-9_/]+|[A-Za-z0-9_/]+\\.)$")
  set(suites)
  foreach(line IN LISTS lines)
    if(line MATCHES "^([A-Za-z0-9_/]+)\\.$")
      set(suite "${CMAKE_MATCH_1}")
      list(APPEND suites "${suite}")
      set("cases_of_${suite}")
    else()
      string(STRIP "${line}" case)
      list(APPEND "cases_of_${suite}" "${case}")
    endif()
  endforeach()
  foreach(suite IN LISTS alone)
    if(NOT suite IN_LIST suites)
      message(FATAL_ERROR "${program} has no suite ${suite}, which ALONE names")
    endif()
  endforeach()
  foreach(suite IN LISTS suites)
    if(suite IN_LIST alone)
      foreach(case IN LISTS "cases_of_${suite}")
        if(NOT case MATCHES "^DISABLED_")
          _autotuned_add_filtered("${prefix}.${suite}.${case}" "${suite}.${case}" ${seconds_per_case} 1)
        endif()
      endforeach()
    else()
      list(LENGTH "cases_of_${suite}" cases)
      math(EXPR seconds "${seconds_per_case} + ${seconds_per_case} * ${cases} / 4")
      _autotuned_add_filtered("${prefix}.${suite}" "${suite}.*" ${seconds} ${cases})
    endif()
  endforeach()
endfunction()

# With `program`, `folder`, `labels` and `slots` of the caller. A single case that skips itself is a skipped test; of
# several the others have run.
function(_autotuned_add_filtered name filter seconds cases)
  add_test("${name}" "${program}" "--gtest_filter=${filter}")
  set(cost ${seconds})
  if(slots EQUAL 1)
    autotuned_cost_behind_others(cost ${seconds})
  endif()
  set_tests_properties("${name}" PROPERTIES
    WORKING_DIRECTORY "${folder}" TIMEOUT ${seconds} COST ${cost} PROCESSORS ${slots} LABELS "${labels}")
  # As the program starts its trainers: threads of LibTorch that wait for each other would else spin, on the CPUs of the
  # tests beside.
  if("torch" IN_LIST labels)
    set_tests_properties("${name}" PROPERTIES ENVIRONMENT "OMP_WAIT_POLICY=passive")
  endif()
  if(cases EQUAL 1)
    set_tests_properties("${name}" PROPERTIES SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  endif()
endfunction()
