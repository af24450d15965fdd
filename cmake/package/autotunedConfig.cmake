# SPDX-License-Identifier: Apache-2.0
# find_package(autotuned): what a plugin outside this tree is built with.
#
#   find_package(autotuned 0.1 REQUIRED)
#   autotuned_plugin(my_plugin SOURCES my_plugin.cpp [PRIVATE library...])
#   autotuned_plugin_test(my_plugin SOURCES my_plugin_test.cpp [PRIVATE library...])
#   autotuned_plugin_loads(my_plugin FOLDER)
#
# What the trainer loads is built with the LibTorch and the compiler of the program:
#
#   autotuned_extension(my_plugin SOURCES my_plugin_trainer.cpp [PRIVATE library...] [POLICY my_plugin.yaml])
#   autotuned_workload(my_plugin SOURCES my_plugin_trainer.cpp [PRIVATE library...])
#   autotuned_trainer_test(my_plugin [SOURCES my_plugin_trainer_test.cpp]
#                          [RECIPE recipe.yaml [SET KNOB=VALUE...]])
#
# Targets: autotuned::sdk (headers), autotuned::autotuned (the program), autotuned::libtorch.
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

# --- what the trainer loads ------------------------------------------------------------------------

include("${CMAKE_CURRENT_LIST_DIR}/autotunedLibTorch.cmake")

# Makes autotuned::libtorch, of the folder AUTOTUNED_LIBTORCH (a variable, or one of the environment) or the
# one that the program was built with. Found out late: other plugins need none.
macro(_autotuned_find_libtorch)
  if(NOT TARGET autotuned::libtorch)
    if(NOT autotuned_LIBTORCH_VERSION)
      message(FATAL_ERROR "this autotuned was built without LibTorch: it has no trainer")
    endif()
    if(NOT AUTOTUNED_LIBTORCH)
      set(AUTOTUNED_LIBTORCH "$ENV{AUTOTUNED_LIBTORCH}")
    endif()
    if(NOT AUTOTUNED_LIBTORCH)
      set(AUTOTUNED_LIBTORCH "${autotuned_LIBTORCH_BUILT_WITH}")
    endif()
    set(_version "of no version")
    if(EXISTS "${AUTOTUNED_LIBTORCH}/version.py")
      file(STRINGS "${AUTOTUNED_LIBTORCH}/version.py" _line REGEX "^__version__")
      string(REGEX REPLACE "^__version__ = '([0-9.]+).*'$" "\\1" _version "${_line}")
    endif()
    if(NOT _version STREQUAL autotuned_LIBTORCH_VERSION)
      message(FATAL_ERROR "AUTOTUNED_LIBTORCH, ${AUTOTUNED_LIBTORCH}, holds LibTorch ${_version}, "
        "the trainer has ${autotuned_LIBTORCH_VERSION}: set it to the torch folder of that version")
    endif()
    add_library(autotuned::libtorch INTERFACE IMPORTED GLOBAL)
    set_property(TARGET autotuned::libtorch PROPERTY autotuned_LIBRARIES "${AUTOTUNED_LIBTORCH}/lib")
    target_include_directories(autotuned::libtorch SYSTEM INTERFACE
      "${AUTOTUNED_LIBTORCH}/include" "${AUTOTUNED_LIBTORCH}/include/torch/csrc/api/include")
    # LibTorch's own headers then include the operators that they use instead of all.
    target_compile_definitions(autotuned::libtorch INTERFACE AT_PER_OPERATOR_HEADERS)
    target_link_libraries(autotuned::libtorch INTERFACE
      "${AUTOTUNED_LIBTORCH}/lib/libtorch_cpu.so" "${AUTOTUNED_LIBTORCH}/lib/libc10.so")
    # What LibTorch itself needs it finds by its own run path.
    target_link_options(autotuned::libtorch INTERFACE LINKER:--allow-shlib-undefined)
  endif()
endmacro()

# libNAME_trainer.so in the project's build folder, and the files of POLICY beside it.
function(_autotuned_trainer_library function name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;PRIVATE;POLICY")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "usage: ${function}(NAME SOURCES file... [PRIVATE library...])")
  endif()
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR
      "'${name}' is no plugin name: a name has lower-case letters, digits and _, a letter first")
  endif()
  _autotuned_find_libtorch()
  add_library(${name}_trainer MODULE ${arg_SOURCES})
  target_link_libraries(${name}_trainer PRIVATE autotuned::sdk autotuned::libtorch ${arg_PRIVATE})
  target_link_options(${name}_trainer PRIVATE LINKER:-z,defs)
  # The trainer has LibTorch already: the library must not look for one of its own.
  set_target_properties(${name}_trainer PROPERTIES
    PREFIX lib CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON SKIP_BUILD_RPATH ON)
  install(TARGETS ${name}_trainer LIBRARY DESTINATION share/autotuned/plugins)
  foreach(file IN LISTS arg_POLICY)
    configure_file("${file}" "${CMAKE_CURRENT_BINARY_DIR}/${file}" COPYONLY)
    install(FILES "${file}" DESTINATION share/autotuned/plugins)
  endforeach()
endfunction()

function(autotuned_extension name)
  _autotuned_trainer_library(autotuned_extension ${name} ${ARGN})
endfunction()

function(autotuned_workload name)
  _autotuned_trainer_library(autotuned_workload ${name} ${ARGN})
endfunction()

# Up to three tests: NAME runs the program of SOURCES with the path of the library as its argument,
# NAME.loads asks `autotuned` whether it takes the library, NAME.trains trains the recipe without tuning it,
# with these knobs set.
function(autotuned_trainer_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "RECIPE" "SOURCES;SET")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR
      "usage: autotuned_trainer_test(NAME [SOURCES file...] [RECIPE file [SET KNOB=VALUE...]])")
  endif()
  if(arg_SOURCES)
    add_executable(${name}_trainer_test ${arg_SOURCES})
    target_link_libraries(${name}_trainer_test PRIVATE
      autotuned::sdk autotuned::libtorch ${CMAKE_DL_LIBS})
    get_property(_folder TARGET autotuned::libtorch PROPERTY autotuned_LIBRARIES)
    set_target_properties(${name}_trainer_test PROPERTIES BUILD_RPATH "${_folder}")
    add_test(NAME ${name} COMMAND ${name}_trainer_test "$<TARGET_FILE:${name}_trainer>")
  endif()
  autotuned_plugin_loads(${name} "$<TARGET_FILE_DIR:${name}_trainer>")
  if(arg_RECIPE)
    list(TRANSFORM arg_SET PREPEND "--set=")
    add_test(NAME ${name}.trains
      COMMAND autotuned::autotuned run "${CMAKE_CURRENT_SOURCE_DIR}/${arg_RECIPE}" --no-daemon
        --budget 0s --retune ${arg_SET} --plugin-dir "$<TARGET_FILE_DIR:${name}_trainer>"
        --output "${CMAKE_CURRENT_BINARY_DIR}/${name}.out"
        --history "${CMAKE_CURRENT_BINARY_DIR}/${name}.out/history.db")
  endif()
endfunction()
