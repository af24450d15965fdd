# SPDX-License-Identifier: Apache-2.0
# find_package(autotuned): what a plugin outside this tree is built with.
#
#   find_package(autotuned 0.1 REQUIRED)
#   autotuned_plugin(my_plugin SOURCES my_plugin.cpp [PRIVATE library...])
#   autotuned_plugin_test(my_plugin SOURCES my_plugin_test.cpp [PRIVATE library...])
#   autotuned_plugin_loads(my_plugin FOLDER)
#
# Targets: autotuned::sdk (headers), autotuned::autotuned (the program).
include_guard(GLOBAL)
get_filename_component(autotuned_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)

add_executable(autotuned::autotuned IMPORTED GLOBAL)
set_target_properties(autotuned::autotuned PROPERTIES
  IMPORTED_LOCATION "${autotuned_PREFIX}/bin/autotuned")

# C++ needs nlohmann-json; a plugin in C needs autotuned_plugin.h alone; a YAML plugin's project has no
# language at all.
add_library(autotuned::sdk INTERFACE IMPORTED GLOBAL)
target_include_directories(autotuned::sdk INTERFACE "${autotuned_PREFIX}/include/autotuned")
get_property(_autotuned_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("CXX" IN_LIST _autotuned_languages)
  include(CMakeFindDependencyMacro)
  find_dependency(nlohmann_json 3.11)
  target_compile_features(autotuned::sdk INTERFACE cxx_std_20)
  target_link_libraries(autotuned::sdk INTERFACE nlohmann_json::nlohmann_json)
endif()

# A policy plugin: libNAME.so in the project's build folder. `cmake --install --prefix ~/.local` puts it
# where `autotuned` looks for the plugins of one user.
function(autotuned_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PRIVATE")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "usage: autotuned_plugin(NAME SOURCES file... [PRIVATE library...])")
  endif()
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR
      "'${name}' is no plugin name: a name has lower-case letters, digits and _, a letter first")
  endif()
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE autotuned::sdk ${arg_PRIVATE})
  # Nothing undefined: a missing symbol is an error of the build, not of somebody's run.
  target_link_options(${name} PRIVATE LINKER:-z,defs)
  set_target_properties(${name} PROPERTIES
    PREFIX lib C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  install(TARGETS ${name} LIBRARY DESTINATION share/autotuned/plugins)
endfunction()

# Two tests of a plugin: NAME runs the program of SOURCES with the path of the plugin as its argument,
# NAME.loads asks `autotuned` whether it takes the plugin.
function(autotuned_plugin_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PRIVATE")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "usage: autotuned_plugin_test(NAME SOURCES file... [PRIVATE library...])")
  endif()
  add_executable(${name}_test ${arg_SOURCES})
  target_link_libraries(${name}_test PRIVATE autotuned::sdk ${arg_PRIVATE} ${CMAKE_DL_LIBS})
  add_test(NAME ${name} COMMAND ${name}_test "$<TARGET_FILE:${name}>")
  autotuned_plugin_loads(${name} "$<TARGET_FILE_DIR:${name}>")
endfunction()

# The test NAME.loads: `autotuned` finds the plugin in FOLDER and does not refuse it.
function(autotuned_plugin_loads name folder)
  add_test(NAME ${name}.loads
    COMMAND autotuned::autotuned plugins --plugin-dir "${folder}" --require ${name})
endfunction()
