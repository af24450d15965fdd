# SPDX-License-Identifier: Apache-2.0
# Read by CTest in a build with sanitizers: one test for each suite of a GoogleTest program, PREFIX.Suite. Such a process
# takes longer to start than most cases take to run, so a process for each case would spend most of its time on starts.
cmake_minimum_required(VERSION 3.25)

# Tests run in `folder`. A suite of many cases gets more time, and starts before one of few.
function(autotuned_add_suites program prefix seconds_per_case folder labels)
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
      set(cases 0)
    else()
      math(EXPR cases "${cases} + 1")
    endif()
    set("cases_of_${suite}" ${cases})
  endforeach()
  foreach(suite IN LISTS suites)
    math(EXPR seconds "${seconds_per_case} + ${seconds_per_case} * ${cases_of_${suite}} / 4")
    add_test("${prefix}.${suite}" "${program}" "--gtest_filter=${suite}.*")
    set_tests_properties("${prefix}.${suite}" PROPERTIES
      WORKING_DIRECTORY "${folder}" TIMEOUT ${seconds} COST ${seconds} LABELS "${labels}")
  endforeach()
endfunction()
